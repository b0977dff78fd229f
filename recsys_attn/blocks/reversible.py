"""Encoders of reversible blocks, with two streams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keras import ops

from recsys_attn.backend.reversible_streams import Step, reversible
from recsys_attn.blocks.attended import attend
from recsys_attn.blocks.residuals import Reversible
from recsys_attn.blocks.transformer import TransformerBlock
from recsys_attn.tensors import Tensor

_TENSORS = (
    "present",
    "condition",
    "attention_mask",
    "attention_bias",
    "positions",
    "segments",
    "context",
    "context_mask",
)
# Weights that no call changes: of ALiBi, random features, hashes, fixed decays.
_CONSTANTS = ("slopes", "projection", "rotations", "logarithm")


def are_reversible(blocks: Sequence[Any]) -> bool:
    """Returns whether the blocks of an encoder are reversible.

    Raises:
        ValueError: Only some are, or a part of them changes when it is computed again.
    """
    kinds = [isinstance(sub.residual, Reversible) for block in blocks for sub in block.sublayers]
    if not any(kinds):
        return False
    if not all(kinds):
        raise ValueError("All blocks of an encoder are reversible or none is. Received: some are")
    for block in blocks:
        _require_same_twice(block)
    return True


def _require_same_twice(block: TransformerBlock) -> None:
    if block.feed_forward_units == 0:
        raise ValueError(
            "A reversible block needs a feed-forward network for its second stream. "
            "Received: feed_forward_units=0"
        )
    heads = getattr(block.attention, "heads", None)
    mechanism = getattr(block.attention, "mechanism", None)
    reasons = {
        "dropout": block.sublayers[0].dropout.rate,
        "activation='dice'": block.activation == "dice",
        "dropout of attention": getattr(getattr(mechanism, "dropout", None), "rate", 0),
        "a gate with noise": getattr(getattr(heads, "gate", None), "penalty", None) is not None,
        "a disagreement": getattr(heads, "disagreement", None) is not None,
    }
    refusals = [name for name, holds in reasons.items() if holds]
    if refusals:
        _refuse(refusals[0])


def require_constant(block: TransformerBlock) -> None:
    """Raises if a built block has random numbers, or weights that a call changes."""
    if len(block.variables) != len(block.weights):
        _refuse("random numbers")
    changing = [w for w in block.non_trainable_weights if w.name not in _CONSTANTS]
    if block.trainable_weights and changing:
        _refuse(f"the weights {changing[0].path!r}, which a call changes")


def _refuse(part: str) -> None:
    raise ValueError(
        "residual='reversible' computes each block twice, with one result; leave "
        f"this out, or use residual='plain'. Received: {part}"
    )


def reversible_pass(blocks: Sequence[TransformerBlock], x: Tensor, **arguments: Any) -> Tensor:
    """Returns the mean of the two streams after all blocks, (B, S, E).

    Args:
        blocks: The blocks in the order of their use.
        x: (B, S, E), both streams at first.
        arguments: `present`, `condition`, `attention_mask`, `attention_bias`, `positions`,
            `segments`, `context`, `context_mask`.
    """
    steps = [_step(block) for block in blocks]
    tensors = [
        None if arguments[name] is None else ops.convert_to_tensor(arguments[name])
        for name in _TENSORS
    ]
    first, second = reversible(steps, (x, x), tensors)
    return (first + second) / 2


def _step(block: TransformerBlock) -> Step:
    def attended(x: Tensor, tensors: Sequence[Any]) -> Tensor:
        present, condition, *others = tensors
        around = block.sublayers[0]
        arguments = dict(zip(_TENSORS[2:], others, strict=True))
        entry = around.entry(x, present, condition)
        update = attend(block.attention, entry, present, (None, None), **arguments)
        return ops.cast(around.leaving(update, present, condition), x.dtype)

    def fed_forward(x: Tensor, tensors: Sequence[Any]) -> Tensor:
        present, condition = tensors[:2]
        around = block.sublayers[-1]
        hidden = block.feed_forward(around.entry(x, present, condition), where=present)
        return ops.cast(around.leaving(hidden, present, condition), x.dtype)

    return Step(attended, fed_forward, block.weights)
