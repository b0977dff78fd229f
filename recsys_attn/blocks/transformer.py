"""Transformer blocks around any attention."""

from __future__ import annotations

from typing import Any

import keras

from recsys_attn.blocks.attended import attend, is_mixer, join_shapes, require_arguments
from recsys_attn.blocks.residual_block import ResidualBlock, checked_shape
from recsys_attn.checks import require_mask_of
from recsys_attn.layer import build_part
from recsys_attn.serialization import deserialize, layer_of, takes
from recsys_attn.tensors import Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class TransformerBlock(ResidualBlock):
    """Self-attention and a feed-forward network, each with a residual connection.

    Pre-norm: `x = x + dropout(F(norm(x)))`; post-norm: `x = norm(x + dropout(F(x)))`. Post-norm is
    the Transformer as published, and needs a warm-up of the learning rate; pre-norm trains without.
    After a stack of pre-norm blocks one more normalisation is needed: `TransformerEncoder` has it.

    Sources: Vaswani et al., "Attention Is All You Need", NIPS 2017, arXiv 1706.03762; normalised
    first: Xiong et al., "On Layer Normalization in the Transformer Architecture", ICML 2020,
    arXiv 2002.04745; sandwich: Ding et al., "CogView", NeurIPS 2021, arXiv 2105.13290.

    Args:
        attention: A layer with the call arguments query and value (B, S, E), `query_mask` and
            `key_mask`, and output (B, S, E), such as `MultiHeadAttention`; or a mixer, a layer
            with the call arguments inputs (B, S, E) and `present`, such as `RecurrentMixer`; or its
            config.
        feed_forward_units: Size of the hidden layer of the feed-forward network. Defaults to four
            times E; 0 leaves the network out.
        activation: Activation of the hidden layer, as in `FeedForward`, such as `"swiglu"`.
        norm: Normalisation: `"layer"`, `"rms"`, which saves the mean, `"conditional"`, whose scale
            and offset depend on a condition, `"none"` with a residual that needs none, or a Keras
            layer. Another epsilon is `{"class_name": "layer", "config": {"epsilon": 1e-3}}`.
        placement: `"pre"`, `"post"`, or `"sandwich"`, `x + norm(F(norm(x)))`, where pre-norm
            becomes unstable in half precision.
        residual: `"plain"`, or for deep stacks `"rezero"`, `"deepnorm"` (post-norm), `"tfixup"` (no
            norm) or `"gru"`; of `recsys_attn.blocks.residuals`.
        dropout: Share of the outputs of attention, hidden layer and feed-forward network dropped in
            training. Defaults to 0.
        feed_forward_chunks: Number of parts of the positions in which the feed-forward network is
            computed, as in `FeedForward`, for very long histories. Defaults to none.

    Call arguments:
        inputs: (B, S, E).
        present: (B, S), False for padding, which no event attends and whose output is zero.
        attention_mask: (B, S, M + S) or (B, N, S, M + S), False for pairs that must not meet.
        attention_bias: The same shapes, added to the scores.
        positions: (M + S,) or (B, M + S), integers, of the memory and the sequence.
        segments: (B, M + S), integers, such as the session of each event, for `SegmentAttention`.
        memory: (B, M, E), more keys, before the sequence: the inputs of this block for earlier
            events, as in Transformer-XL. Stop their gradient there.
        memory_mask: (B, M), False for padding in the memory.
        condition: (B, C), of `norm="conditional"`, such as the scenario or the user.
        context, context_mask: (B, L, C) and (B, L), more keys of the attention with projections of
            their own, as in `MultiHeadAttention`.
        mask: Keras' own mask of the inputs; replaced by `present`.

    Returns:
        (B, S, E).

    Raises:
        TypeError: The attention or the normalisation does not take one of the arguments.
        ValueError: The normalisation, its placement and the residual do not go together.

    Example:

    >>> import keras
    >>> from recsys_attn.attention import MultiHeadAttention
    >>> from recsys_attn.blocks import TransformerBlock
    >>> events = keras.random.normal((2, 5, 8))
    >>> block = TransformerBlock(MultiHeadAttention(2, 4), norm="rms", dropout=0.1)
    >>> tuple(block(events, memory=keras.random.normal((2, 3, 8))).shape)
    (2, 5, 8)
    """

    def __init__(
        self,
        attention: Any,
        feed_forward_units: int | None = None,
        activation: Any = "relu",
        *,
        norm: Any = "layer",
        placement: str = "pre",
        residual: Any = "plain",
        dropout: float = 0.0,
        feed_forward_chunks: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            feed_forward_units,
            activation,
            norm=norm,
            placement=placement,
            residual=residual,
            dropout=dropout,
            feed_forward_chunks=feed_forward_chunks,
            **kwargs,
        )
        part = deserialize(attention)
        if not (isinstance(part, keras.layers.Layer) and is_mixer(part)):
            part = layer_of(
                "attention", part, "query_mask", "key_mask", such_as="MultiHeadAttention"
            )
        self.attention = part

    def build(
        self,
        inputs_shape: Shape,
        memory_shape: Shape | None = None,
        condition_shape: Shape | None = None,
        context_shape: Shape | None = None,
    ) -> None:
        shape = checked_shape(inputs_shape)
        self.start_smaller("attention", self.attention)
        shapes: tuple[Any, ...] = (shape,)
        if not is_mixer(self.attention):
            shapes = (shape, join_shapes(memory_shape, shape))
        if context_shape is not None and takes(self.attention, "context"):
            shapes = (*shapes, None, context_shape)
        build_part(self, "attention", self.attention, *shapes)
        self.build_sublayers(shape, condition_shape)

    def call(
        self,
        inputs: Tensor,
        present: Tensor | None = None,
        attention_mask: Tensor | None = None,
        attention_bias: Tensor | None = None,
        positions: Tensor | None = None,
        segments: Tensor | None = None,
        memory: Tensor | None = None,
        memory_mask: Tensor | None = None,
        condition: Tensor | None = None,
        context: Tensor | None = None,
        context_mask: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        present = mask if present is None else present
        require_mask_of("present", present, inputs)
        self.require_condition(condition)
        around = self.sublayers[0]
        if memory is not None:
            memory = around.entry(memory, memory_mask, condition)
        update = attend(
            self.attention,
            around.entry(inputs, present, condition),
            present,
            (memory, memory_mask),
            attention_mask=attention_mask,
            attention_bias=attention_bias,
            positions=positions,
            segments=segments,
            context=context,
            context_mask=context_mask,
        )
        return self.finish(around(inputs, update, present, condition), present, condition)

    def compute_output_spec(
        self, inputs: Tensor, present: Tensor | None = None, **arguments: Any
    ) -> Tensor:
        require_arguments(self.attention, arguments)
        return self.output_spec(inputs, present, arguments)
