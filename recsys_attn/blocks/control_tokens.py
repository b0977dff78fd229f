"""Control tokens: a context as the first tokens of a sequence."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from recsys_attn.checks import require_mask_of
from recsys_attn.initializers import glorot
from recsys_attn.layer import Layer, build_part
from recsys_attn.serialization import layer_of
from recsys_attn.tensors import Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class ControlTokens(Layer):
    """An encoder over `[context; inputs]`, whose output for the context is left out.

    The embeddings of the context, such as those of the scenario and of the user, stand in front of
    the events and pass the encoder's own projections; those of another width than the events are
    projected to it. Positions that change the events belong before this layer, so that the events
    keep theirs.

    Source: Keskar et al., "CTRL: A Conditional Transformer Language Model for Controllable
    Generation", 2019, arXiv 1909.05858.

    Args:
        encoder: A layer `(inputs (B, S, E), present (B, S)) -> (B, S, E)`, such as a
            `TransformerEncoder`, or its config. Its attention should let every event see the first
            tokens: without a pattern, or with `"causal"` or `Prepended(M, Local(64))`.

    Call arguments:
        inputs: (B, S, E).
        context: (B, M, C).
        present: (B, S), False for padding.
        context_mask: (B, M), False for padding in the context.
        positions: (B, S), integers, such as times, for an encoder that takes them; the context has
            those of the first event.

    Returns:
        (B, S, E).

    Example:

    >>> import keras
    >>> from recsys_attn.attention import MultiHeadAttention
    >>> from recsys_attn.blocks import ControlTokens, TransformerBlock, TransformerEncoder
    >>> encoder = TransformerEncoder([TransformerBlock(MultiHeadAttention(2, 4))])
    >>> events, scenario = keras.random.normal((2, 5, 8)), keras.random.normal((2, 1, 3))
    >>> tuple(ControlTokens(encoder)(events, scenario).shape)
    (2, 5, 8)
    """

    def __init__(self, encoder: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.encoder: Any = layer_of("encoder", encoder, "present", such_as="TransformerEncoder")

    @property
    def blocks(self) -> Any:
        """The blocks of the encoder."""
        return self.encoder.blocks

    @property
    def uses_times(self) -> bool:
        """Whether the positions of a call are times."""
        return getattr(self.encoder, "uses_times", False)

    def build(self, inputs_shape: Shape, context_shape: Shape) -> None:
        if len(context_shape) != 3 or None in context_shape[1:]:
            raise ValueError(
                "`context` must have shape (B, M, C) with a known number M of tokens and a known "
                f"width C. Received: context.shape={tuple(context_shape)}"
            )
        width, self.projection = inputs_shape[-1], None
        if context_shape[-1] != width:
            self.projection = self.add_weight(
                shape=(context_shape[-1], width), initializer=glorot(1.0), name="projection"
            )
        batch, length = inputs_shape[:2]
        total = None if length is None else length + int(context_shape[1] or 0)
        build_part(self, "encoder", self.encoder, (batch, total, width))

    def call(
        self,
        inputs: Tensor,
        context: Tensor,
        present: Tensor | None = None,
        context_mask: Tensor | None = None,
        positions: Tensor | None = None,
    ) -> Tensor:
        require_mask_of("present", present, inputs)
        require_mask_of("context_mask", context_mask, context)
        tokens = context if self.projection is None else ops.matmul(context, self.projection)
        count, placed = context.shape[1], {}
        if positions is not None:
            first = ops.repeat(positions[:, :1], count, axis=1)
            placed["positions"] = ops.concatenate([first, positions], axis=1)
        masks = [
            ops.ones(ops.shape(x)[:2], "bool") if mask is None else ops.cast(mask, "bool")
            for x, mask in ((context, context_mask), (inputs, present))
        ]
        encoded = self.encoder(
            ops.concatenate([ops.cast(tokens, inputs.dtype), inputs], axis=1),
            present=ops.concatenate(masks, axis=1),
            **placed,
        )
        return ops.cast(encoded[:, count:], self.compute_dtype)

    def compute_output_spec(
        self, inputs: Tensor, context: Tensor, present: Tensor | None = None, **arguments: Any
    ) -> Tensor:
        require_mask_of("present", present, inputs)
        return keras.KerasTensor(inputs.shape, dtype=self.compute_dtype)
