"""The stack of Transformer blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from recsys_attn.blocks.norms import build_norm
from recsys_attn.blocks.reversible import are_reversible, require_constant, reversible_pass
from recsys_attn.blocks.stack import Stack
from recsys_attn.blocks.transformer import TransformerBlock
from recsys_attn.checks import require_mask_of
from recsys_attn.layer import build_part
from recsys_attn.tensors import Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class TransformerEncoder(Stack):
    """A stack of Transformer blocks and a final normalisation.

    `output = norm(block_L(... block_1(inputs)))`, with the norm only if the last block has one and
    does not end with it (pre-norm, sandwich).

    Args:
        blocks: List of `TransformerBlock`s, or their configs.
        depth: Number of blocks that are applied, if it is greater than the number of blocks: each
            is then applied several times, one after the other, with the same weights. One block
            is ALBERT, with the memory and the saved model of one. Defaults to the number of blocks.

    Call arguments:
        inputs: (B, S, E), with positions added if the order matters.
        present: (B, S), False for padding, which no event attends and whose output is zero.
        attention_mask, attention_bias, positions, segments, memory_mask, condition, context,
            context_mask: As in `TransformerBlock`; the same for all blocks.
        memory: (B, L, M, E), the memory of each of the L blocks: earlier `states`.
        return_states: Whether to return the states too.
        mask: Keras' own mask of the inputs; replaced by `present`.

    Returns:
        (B, S, E), and with `return_states` also (B, L, S, E), the inputs of each block. Stop their
        gradient and give them as `memory` with the next events of the same users, as in
        Transformer-XL.

    Sources: memory: Dai et al., "Transformer-XL", ACL 2019, arXiv 1901.02860; sharing: Lan et al.,
    "ALBERT: A Lite BERT", ICLR 2020, arXiv 1909.11942.

    Example:

    >>> import keras
    >>> from recsys_attn.attention import MultiHeadAttention
    >>> from recsys_attn.attention.positions import LearnedPositions
    >>> from recsys_attn.blocks import TransformerBlock, TransformerEncoder
    >>> events = LearnedPositions(50)(keras.random.normal((2, 5, 8)))
    >>> encoder = TransformerEncoder([TransformerBlock(MultiHeadAttention(2, 4)) for _ in range(3)])
    >>> output, states = encoder(events, return_states=True)
    >>> tuple(encoder(events, memory=states).shape)
    (2, 5, 8)
    """

    def __init__(self, blocks: Sequence[Any], depth: int | None = None, **kwargs: Any) -> None:
        super().__init__(TransformerBlock, blocks, depth, **kwargs)
        self.reversible = are_reversible(self.blocks)

    def build(
        self,
        inputs_shape: Shape,
        memory_shape: Shape | None = None,
        condition_shape: Shape | None = None,
        context_shape: Shape | None = None,
    ) -> None:
        self._require_memory(memory_shape)
        block_memory_shape = None if memory_shape is None else (memory_shape[0], *memory_shape[2:])
        for block in self.blocks:
            build_part(
                self,
                "block",
                block,
                inputs_shape,
                block_memory_shape,
                condition_shape,
                context_shape,
            )
            if self.reversible:
                require_constant(block)
        if self.final_norm is not None:
            build_norm(self.final_norm, inputs_shape, condition_shape)

    def _require_memory(self, shape: Shape | None) -> None:
        if shape is not None and (len(shape) != 4 or shape[1] != len(self.applied)):
            raise ValueError(
                "`memory` must have shape (B, L, M, E), with a memory for each of the "
                f"{len(self.applied)} blocks. Received: memory.shape={tuple(shape)}"
            )

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
        return_states: bool = False,
        mask: Tensor | None = None,
    ) -> Any:
        present = mask if present is None else present
        require_mask_of("present", present, inputs)
        self._require_memory(None if memory is None else memory.shape)
        if self.reversible:
            _require_none_kept(memory, return_states)
            x = reversible_pass(
                self.applied,
                ops.cast(inputs, self.compute_dtype),
                present=present,
                condition=condition,
                attention_mask=attention_mask,
                attention_bias=attention_bias,
                positions=positions,
                segments=segments,
                context=context,
                context_mask=context_mask,
            )
            return self.finish(x, present, condition)
        x, states = inputs, []
        for index, block in enumerate(self.applied):
            states.append(ops.cast(x, self.compute_dtype))
            x = block(
                x,
                present=present,
                attention_mask=attention_mask,
                attention_bias=attention_bias,
                positions=positions,
                segments=segments,
                memory=None if memory is None else memory[:, index],
                memory_mask=memory_mask,
                condition=condition,
                context=context,
                context_mask=context_mask,
            )
        x = self.finish(x, present, condition)
        return (x, ops.stack(states, axis=1)) if return_states else x

    def compute_output_spec(
        self,
        inputs: Tensor,
        present: Tensor | None = None,
        return_states: bool = False,
        **arguments: Any,
    ) -> Any:
        if self.reversible:
            _require_none_kept(arguments.get("memory"), return_states)
        for block in self.blocks:
            output = block.compute_output_spec(inputs, present, **arguments)
        if not return_states:
            return output
        batch, length, width = inputs.shape
        shape = (batch, len(self.applied), length, width)
        return output, keras.KerasTensor(shape, dtype=self.compute_dtype)


def _require_none_kept(memory: Any, return_states: bool) -> None:
    if memory is not None or return_states:
        raise ValueError(
            "Reversible blocks keep no states, so there is no memory of them; use "
            f"residual='plain'. Received: memory={'None' if memory is None else 'given'}, "
            f"return_states={return_states}"
        )
