"""Random blocks of a route: one plan for all heads, or one for each."""

from __future__ import annotations

from typing import Any

from keras import ops

from recsys_attn.attention.patterns.base import Pattern
from recsys_attn.attention.patterns.per_head import PerHead
from recsys_attn.attention.patterns.random_blocks import RandomBlocks, random_plan
from recsys_attn.attention.routers.group_layout import taken
from recsys_attn.checks import require_integer
from recsys_attn.tensors import Tensor

Seed = int | tuple[int, ...]


def checked_seed(seed: Any) -> Seed:
    """Returns an integer, or a tuple of one for each head."""
    if not isinstance(seed, list | tuple):
        require_integer("seed", seed)
        return int(seed)
    if not seed:
        raise ValueError(
            f"`seed` must be an integer, or a list of one for each head. Received: seed={seed!r}"
        )
    for index, number in enumerate(seed):
        require_integer(f"seed[{index}]", number)
    return tuple(int(number) for number in seed)


def require_seed_of_each(seed: Seed, heads: int | None) -> None:
    """Raises if a list of seeds is for another number of heads."""
    if isinstance(seed, tuple) and heads is not None and len(seed) != heads:
        raise ValueError(
            f"`seed` must be one integer or a list of {heads}, one for each head. "
            f"Received: seed={list(seed)}"
        )


def random_pattern(size: int, count: int, seed: Seed) -> Pattern:
    """Returns the pairs of the random blocks as a pattern."""
    if not isinstance(seed, tuple):
        return RandomBlocks(size, count, seed)
    return PerHead(tuple(RandomBlocks(size, count, number) for number in seed))


def plans(block: Tensor, total: Tensor, count: int, seed: Seed) -> Tensor:
    """Returns the random blocks of blocks (B or 1, N or 1, T): (B or 1, N or 1, T, count)."""
    if not isinstance(seed, tuple):
        return random_plan(block, total, count, seed)
    plan = []
    for head, number in enumerate(seed):
        row, blocks = (x if x.shape[1] == 1 else x[:, head : head + 1] for x in (block, total))
        plan.append(random_plan(row + blocks * 0, blocks, count, number))
    return ops.concatenate(plan, axis=1)


def keys_of_plans(blocks: Tensor, drawn: Tensor) -> Tensor:
    """Gathers keys by a plan of each head.

    (B, blocks, size, N, H), (B or 1, N, blocks, R) -> (B, blocks, R * size, N, H).
    """
    batch, count, size, heads, width = ops.shape(blocks)
    rows = ops.transpose(blocks, (0, 1, 3, 2, 4))
    rows = ops.reshape(rows, (batch, count * heads, size, width))
    index = ops.transpose(ops.maximum(drawn, 0), (0, 2, 1, 3)) * heads
    index = index + ops.arange(heads, dtype="int32")[:, None]
    keys = ops.transpose(taken(rows, index), (0, 1, 3, 4, 2, 5))
    return ops.reshape(keys, (batch, count, ops.shape(drawn)[3] * size, heads, width))


def marks_of_plans(blocks: Tensor, drawn: Tensor) -> Tensor:
    """Gathers numbers that heads share: (B or 1, blocks, size) -> (B, blocks, N, R * size)."""
    size = ops.shape(blocks)[2]
    marks = taken(blocks, ops.transpose(drawn, (0, 2, 1, 3)))
    batch, count, heads, number, _ = ops.shape(marks)
    return ops.reshape(marks, (batch, count, heads, number * size))
