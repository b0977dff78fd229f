"""The stack of decoder blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras

from recsys_attn.blocks.decoder_block import TransformerDecoderBlock
from recsys_attn.blocks.norms import build_norm
from recsys_attn.blocks.residuals import Reversible
from recsys_attn.blocks.stack import Stack
from recsys_attn.layer import build_part
from recsys_attn.tensors import Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class TransformerDecoder(Stack):
    """A stack of decoder blocks and a final normalisation.

    `output = norm(block_L(... block_1(inputs, context), context))`, with the norm only if the last
    block has one and does not end with it (pre-norm, sandwich).

    Args:
        blocks: List of `TransformerDecoderBlock`s, or their configs.
        depth: Number of blocks that are applied, as in `TransformerEncoder`.

    Call arguments:
        inputs: (B, S, E), with positions added if the order matters.
        context: (B, K, D), such as an encoded history.
        present: (B, S), False for padding, whose output is zero.
        context_mask: (B, K), False for padding in the context.
        attention_mask, attention_bias, positions, cross_attention_mask, condition: As in
            `TransformerDecoderBlock`; the same for all blocks.
        mask: Keras' own mask of the inputs; replaced by `present`.

    Returns:
        (B, S, E).

    Example:

    >>> import keras
    >>> from recsys_attn.attention import MultiHeadAttention
    >>> from recsys_attn.blocks import TransformerDecoder, TransformerDecoderBlock
    >>> blocks = [
    ...     TransformerDecoderBlock(
    ...         MultiHeadAttention(2, 4, "transformer_xl"), MultiHeadAttention(2, 4)
    ...     )
    ...     for _ in range(2)
    ... ]
    >>> slate, history = keras.random.normal((2, 5, 8)), keras.random.normal((2, 7, 6))
    >>> tuple(TransformerDecoder(blocks)(slate, history).shape)
    (2, 5, 8)
    """

    def __init__(self, blocks: Sequence[Any], depth: int | None = None, **kwargs: Any) -> None:
        super().__init__(TransformerDecoderBlock, blocks, depth, **kwargs)
        if any(isinstance(block.sublayers[0].residual, Reversible) for block in self.blocks):
            raise Reversible.one_stream()

    def build(
        self, inputs_shape: Shape, context_shape: Shape, condition_shape: Shape | None = None
    ) -> None:
        for block in self.blocks:
            build_part(self, "block", block, inputs_shape, context_shape, None, condition_shape)
        if self.final_norm is not None:
            build_norm(self.final_norm, inputs_shape, condition_shape)

    def call(
        self,
        inputs: Tensor,
        context: Tensor,
        present: Tensor | None = None,
        context_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        attention_bias: Tensor | None = None,
        positions: Tensor | None = None,
        cross_attention_mask: Tensor | None = None,
        condition: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        present = mask if present is None else present
        x = inputs
        for block in self.applied:
            x = block(
                x,
                context,
                present=present,
                context_mask=context_mask,
                attention_mask=attention_mask,
                attention_bias=attention_bias,
                positions=positions,
                cross_attention_mask=cross_attention_mask,
                condition=condition,
            )
        return self.finish(x, present, condition)

    def compute_output_spec(
        self, inputs: Tensor, context: Tensor, *args: Any, **arguments: Any
    ) -> Any:
        for block in self.blocks:
            output = block.compute_output_spec(inputs, context, *args, **arguments)
        return output
