"""The block of a decoder: self-attention, cross-attention and a feed-forward network."""

from __future__ import annotations

from typing import Any

import keras

from recsys_attn.blocks.attended import attend, join_shapes, require_arguments
from recsys_attn.blocks.residual_block import ResidualBlock, checked_shape
from recsys_attn.checks import require_mask_of
from recsys_attn.layer import build_part
from recsys_attn.serialization import layer_of
from recsys_attn.tensors import Shape, Tensor

_ARGUMENTS = ("query_mask", "key_mask")


@keras.saving.register_keras_serializable(package="recsys_attn")
class TransformerDecoderBlock(ResidualBlock):
    """Causal self-attention, cross-attention to a context, and a feed-forward network.

    Pre-norm: `x = x + A(norm(x))`, `x = x + C(norm(x), context)`, `x = x + F(norm(x))`, each with
    dropout; other norms, placements and residuals as in `TransformerBlock`. The context is not
    normalised: it is the output of an encoder, such as a history.

    Source: Vaswani et al., "Attention Is All You Need", NIPS 2017, arXiv 1706.03762.

    Args:
        attention: Causal self-attention, a layer such as `MultiHeadAttention` with
            `Dense(pattern="causal")`; or its config.
        cross_attention: A layer with the call arguments query, value, `query_mask` and `key_mask`,
            such as `MultiHeadAttention`; or its config.
        feed_forward_units, activation, norm, placement, residual, dropout: As in
            `TransformerBlock`.

    Call arguments:
        inputs: (B, S, E).
        context: (B, K, D), the vectors that the cross-attention attends.
        present: (B, S), False for padding, whose output is zero.
        context_mask: (B, K), False for padding in the context.
        attention_mask, attention_bias, positions, memory, memory_mask, condition: As in
            `TransformerBlock`, for the self-attention.
        cross_attention_mask: (B, S, K) or (B, N, S, K), False for pairs that must not meet.
        mask: Keras' own mask of the inputs; replaced by `present`.

    Returns:
        (B, S, E).

    Raises:
        ValueError: The self-attention is not causal.

    Example:

    >>> import keras
    >>> from recsys_attn.attention import MultiHeadAttention
    >>> from recsys_attn.blocks import TransformerDecoderBlock
    >>> slate, history = keras.random.normal((2, 5, 8)), keras.random.normal((2, 7, 6))
    >>> causal = MultiHeadAttention(2, 4, "transformer_xl")
    >>> block = TransformerDecoderBlock(causal, MultiHeadAttention(2, 4))
    >>> tuple(block(slate, history).shape)
    (2, 5, 8)
    """

    def __init__(
        self,
        attention: Any,
        cross_attention: Any,
        feed_forward_units: int | None = None,
        activation: Any = "relu",
        *,
        norm: Any = "layer",
        placement: str = "pre",
        residual: Any = "plain",
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            feed_forward_units,
            activation,
            count=2,
            norm=norm,
            placement=placement,
            residual=residual,
            dropout=dropout,
            **kwargs,
        )
        such_as = "MultiHeadAttention"
        self.attention = layer_of("attention", attention, *_ARGUMENTS, such_as=such_as)
        self.cross_attention = layer_of(
            "cross_attention", cross_attention, *_ARGUMENTS, such_as=such_as
        )
        mechanism = getattr(self.attention, "mechanism", None)
        if mechanism is not None and not mechanism.is_causal:
            raise ValueError(
                "`attention` of a decoder must be causal, such as "
                "MultiHeadAttention(2, 16, Dense(pattern='causal')); for events that see each "
                f"other use TransformerBlock. Received: the mechanism {mechanism!r}"
            )

    def build(
        self,
        inputs_shape: Shape,
        context_shape: Shape,
        memory_shape: Shape | None = None,
        condition_shape: Shape | None = None,
    ) -> None:
        shape = checked_shape(inputs_shape)
        for name, part, keys in (
            ("attention", self.attention, join_shapes(memory_shape, shape)),
            ("cross_attention", self.cross_attention, context_shape),
        ):
            self.start_smaller(name, part)
            build_part(self, name, part, shape, keys)
        self.build_sublayers(shape, condition_shape)

    def call(
        self,
        inputs: Tensor,
        context: Tensor,
        present: Tensor | None = None,
        context_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        attention_bias: Tensor | None = None,
        positions: Tensor | None = None,
        memory: Tensor | None = None,
        memory_mask: Tensor | None = None,
        cross_attention_mask: Tensor | None = None,
        condition: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        present = mask if present is None else present
        require_mask_of("present", present, inputs)
        require_mask_of("context_mask", context_mask, context)
        self.require_condition(condition)
        within, across = self.sublayers[:2]
        if memory is not None:
            memory = within.entry(memory, memory_mask, condition)
        update = attend(
            self.attention,
            within.entry(inputs, present, condition),
            present,
            (memory, memory_mask),
            attention_mask=attention_mask,
            attention_bias=attention_bias,
            positions=positions,
        )
        x = within(inputs, update, present, condition)
        pairs = {} if cross_attention_mask is None else {"attention_mask": cross_attention_mask}
        update = self.cross_attention(
            across.entry(x, present, condition),
            context,
            query_mask=present,
            key_mask=context_mask,
            **pairs,
        )
        return self.finish(across(x, update, present, condition), present, condition)

    def compute_output_spec(
        self, inputs: Tensor, context: Tensor, present: Tensor | None = None, **arguments: Any
    ) -> Tensor:
        require_mask_of("context_mask", arguments.get("context_mask"), context)
        of_attention = {name: value for name, value in arguments.items() if name != "context_mask"}
        require_arguments(self.attention, of_attention)
        return self.output_spec(inputs, present, arguments)
