"""XLNet's two streams: contents, and queries that do not see the event that they predict."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from recsys_attn.attention.masks.sequence_masks import permutation
from recsys_attn.blocks.attended import attend, is_mixer
from recsys_attn.blocks.encoder import TransformerEncoder
from recsys_attn.blocks.residuals import Reversible
from recsys_attn.checks import require_mask_of
from recsys_attn.layer import Layer, build_part
from recsys_attn.serialization import deserialize
from recsys_attn.tensors import Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class TwoStreamEncoder(Layer):
    """An encoder over the events in a random order, for pretraining by prediction in any order.

    For each block, with the same weights in both streams and the order z:

    - content: `h[z_t] = block(h[z_t], h[z_1 ... z_t])`, from the events;
    - query: `g[z_t] = block(g[z_t], h[z_1 ... z_{t-1}])`, from one learned vector w.

    So the query stream at an event knows its place and the events before it in the order, and not
    the event itself: `g` predicts it. Positions stay those of the sequence. A trained encoder is
    used without the query stream: `layer.encoder(events)`. It costs twice the encoder.

    Source: Yang et al., "XLNet: Generalized Autoregressive Pretraining for Language Understanding",
    NeurIPS 2019, arXiv 1906.08237, sections 2.3 to 2.5. The paper computes queries for the last
    part of the order only; here for all.

    Args:
        encoder: A `TransformerEncoder` whose attention is `Dense` without a causal pattern, such as
            `"xlnet"`, or its config. The paper has `placement="post"`; with `SegmentAttention` it
            has the paper's segments too.

    Call arguments:
        inputs: (B, S, E).
        ranks: (B, S), integers, the rank of each event in the order. Events of the lowest rank are
            context for all; draw new ranks for each batch.
        present: (B, S), False for padding, which no event attends and whose output is zero.
        positions, segments: (M + S,) or (B, M + S), integers, of the memory and the sequence;
            segments need `SegmentAttention`.
        memory: (B, L, M, E), earlier `states`, which all events attend.
        memory_mask: (B, M), False for padding in the memory.
        return_states: Whether to return the states of the content stream too.

    Returns:
        Content and query stream, each (B, S, E); and with `return_states` (B, L, S, E), the inputs
        of each block.

    Raises:
        TypeError: The attention of a block takes no mask of pairs.
        ValueError: It is causal: the order is that of `ranks`.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from recsys_attn.attention import MultiHeadAttention, TwoStreamEncoder
    >>> from recsys_attn.blocks import TransformerBlock, TransformerEncoder
    >>> blocks = [TransformerBlock(MultiHeadAttention(2, 4, "xlnet")) for _ in range(2)]
    >>> layer = TwoStreamEncoder(TransformerEncoder(blocks))
    >>> order = np.random.default_rng(0).permuted(np.tile(np.arange(5), (3, 1)), axis=1)
    >>> content, query = layer(keras.random.normal((3, 5, 8)), order)
    >>> tuple(content.shape), tuple(query.shape)
    ((3, 5, 8), (3, 5, 8))
    """

    def __init__(self, encoder: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.encoder: Any = deserialize(encoder)
        if not isinstance(self.encoder, TransformerEncoder):
            raise TypeError(
                "`encoder` must be a TransformerEncoder or its config. "
                f"Received: {encoder!r} of type {type(encoder).__name__}"
            )
        if self.encoder.reversible:
            raise Reversible.one_stream()
        for block in self.encoder.blocks:
            _require_pairs(block.attention)

    def build(
        self,
        inputs_shape: Shape,
        ranks_shape: Shape | None = None,
        memory_shape: Shape | None = None,
    ) -> None:
        build_part(self, "encoder", self.encoder, inputs_shape, memory_shape)
        self.start = self.add_weight(
            shape=(inputs_shape[-1],),
            initializer=keras.initializers.RandomNormal(stddev=0.02),
            name="start",
        )

    def call(
        self,
        inputs: Tensor,
        ranks: Tensor,
        present: Tensor | None = None,
        positions: Tensor | None = None,
        segments: Tensor | None = None,
        memory: Tensor | None = None,
        memory_mask: Tensor | None = None,
        return_states: bool = False,
    ) -> Any:
        require_mask_of("present", present, inputs)
        before = 0 if memory is None else ops.shape(memory)[2]
        content_mask, query_mask = (
            ops.pad(mask, ((0, 0), (0, 0), (before, 0)), constant_values=True)
            for mask in permutation(ranks)
        )
        places: dict[str, Any] = {"positions": positions, "segments": segments}
        content, states = ops.cast(inputs, self.compute_dtype), []
        query = ops.broadcast_to(ops.cast(self.start, content.dtype), ops.shape(content))
        for index, block in enumerate(self.encoder.applied):
            states.append(content)
            around = block.sublayers[0]
            keys = around.entry(content, present)
            earlier = None if memory is None else around.entry(memory[:, index], memory_mask)
            common = (block.attention, keys, present, (earlier, memory_mask))
            updates = (
                attend(*common, attention_mask=content_mask, **places),
                attend(
                    *common, query=around.entry(query, present), attention_mask=query_mask, **places
                ),
            )
            content, query = (
                block.finish(around(x, update, present), present, None)
                for x, update in zip((content, query), updates, strict=True)
            )
        content, query = (self.encoder.finish(x, present, None) for x in (content, query))
        outputs = tuple(ops.cast(x, self.compute_dtype) for x in (content, query))
        return (*outputs, ops.stack(states, axis=1)) if return_states else outputs

    def compute_output_spec(
        self,
        inputs: Tensor,
        ranks: Tensor,
        present: Tensor | None = None,
        return_states: bool = False,
        **arguments: Any,
    ) -> Any:
        require_mask_of("present", present, inputs)
        outputs = [keras.KerasTensor(inputs.shape, dtype=self.compute_dtype) for _ in range(2)]
        if not return_states:
            return tuple(outputs)
        batch, length, width = inputs.shape
        shape = (batch, len(self.encoder.applied), length, width)
        return (*outputs, keras.KerasTensor(shape, dtype=self.compute_dtype))


def _require_pairs(attention: Any) -> None:
    """Raises unless attention takes a mask of pairs and no order of its own."""
    mechanism = getattr(attention, "mechanism", None)
    if is_mixer(attention) or mechanism is None or mechanism.own_sequence:
        raise TypeError(
            "The streams need attention of one sequence to another with a mask of pairs, such as "
            f"MultiHeadAttention with the mechanism Dense. Received: {mechanism or attention!r}"
        )
    attention.mechanism.require_honoured("attention_mask")
    if attention.mechanism.is_causal:
        raise ValueError(
            "The order of the streams is that of `ranks`, so the attention must not be causal. Use "
            f"a mechanism such as 'xlnet'. Received: {attention.mechanism!r}"
        )
