"""Random pairs of blocks, the same on every backend and in every process."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from keras import ops

from recsys_attn.attention.patterns.base import PATTERNS, Pattern
from recsys_attn.attention.patterns.blocks import block_count
from recsys_attn.checks import require_positive
from recsys_attn.tensors import Tensor

# Its square fits an int32, so that nothing below overflows and all backends agree. It is 2 modulo
# 3, so that cubing is a permutation of the numbers below it.
_PRIME = 46_337
_ROUNDS = 8


def random_plan(rows: Tensor, blocks: Any, count: int, seed: int) -> Tensor:
    """Draws `count` different blocks of keys for each block of queries.

    The result depends on the arguments only, and all arithmetic is in integers, so that nothing has
    to be saved and all backends agree. The circle of blocks, from a random start, is cut into
    `count` runs of nearly equal size, and one block is drawn from each; all blocks are equally
    likely. The draws are a permutation of the integers modulo a prime, made of rounds `x <- (x +
    key + constant)^3`, with a key for each row.

    Args:
        rows: Indices of blocks of queries (...), integers.
        blocks: Number of blocks of keys, at least one: an integer, or integers that broadcast to
            `rows`.
        count: Number of blocks per row, or all if there are fewer.
        seed: Seed of the plan.

    Returns:
        (..., count) int32, -1 for missing blocks.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.attention.patterns import random_plan
    >>> np.asarray(random_plan(np.arange(5), 5, count=2, seed=0)).shape
    (5, 2)
    """
    digest = hashlib.sha256(str(int(seed)).encode()).digest()
    constants = [int.from_bytes(digest[i : i + 2], "big") for i in range(0, 4 * _ROUNDS, 2)]
    key = _permuted(ops.cast(rows, "int32"), constants[:_ROUNDS])[..., None]
    blocks = ops.cast(blocks, "int32")[..., None]
    run = ops.arange(count, dtype="int32")
    start = run * blocks // count
    size = (run + 1) * blocks // count - start
    draw = _permuted(run, constants[_ROUNDS:], key) % ops.maximum(size, 1)
    return ops.where(size > 0, (key + start + draw) % blocks, -1)


def _permuted(x: Tensor, constants: list[int], key: Any = 0) -> Tensor:
    """Returns a permutation of 0 ... prime-1 for each key."""
    for constant in constants:
        x = (x + key + constant) % _PRIME
        x = x * x % _PRIME * x % _PRIME
    return x


@PATTERNS.register("random_blocks")
@dataclass(frozen=True)
class RandomBlocks(Pattern):
    """Each block of queries attends some random blocks of keys.

    Source: Zaheer et al., "Big Bird: Transformers for Longer Sequences", NeurIPS 2020,
    arXiv 2007.14062. The released code draws from the first 1024 positions only, the oldest events
    of a history; here all blocks are equally likely. The paper has a different plan for each head
    and layer: use different seeds, for heads with `PerHead`.

    Args:
        size: Number of positions in a block; the last one may have fewer.
        count: Number of blocks that a block attends, or all if there are fewer.
        seed: Seed of the plan, which also depends on the number of blocks.

    Example:

    >>> from recsys_attn.attention.patterns import RandomBlocks
    >>> RandomBlocks(size=2, count=1).matrix(8)[0].sum(axis=1).tolist()
    [2, 2, 2, 2, 2, 2, 2, 2]
    """

    size: int = 64
    count: int = 3
    seed: int = 0

    def __post_init__(self) -> None:
        require_positive("size", self.size)
        require_positive("count", self.count)
        if not isinstance(self.seed, Integral) or isinstance(self.seed, bool):
            raise ValueError(f"`seed` must be an integer. Received: seed={self.seed!r}")

    def __call__(self, rows: Tensor, columns: Tensor, length: Any) -> Tensor:
        blocks = block_count(length, self.size)
        plan = random_plan(rows // self.size, blocks, self.count, self.seed)
        column = columns // self.size
        # Positions before the first are in no block; the plan also has -1 for no block.
        drawn = ops.any(ops.equal(column[..., None], plan), axis=-1)
        return ops.logical_and(column >= 0, drawn)

    @property
    def depends_on_length(self) -> bool:
        return True
