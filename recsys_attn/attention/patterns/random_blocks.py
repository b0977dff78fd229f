"""Random pairs of blocks, the same on every backend and in every process."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import keras
from keras import ops

from recsys_attn.attention.patterns.base import Pattern
from recsys_attn.attention.patterns.blocks import block_count
from recsys_attn.checks import require_positive
from recsys_attn.tensors import Tensor

# Its square fits an int32, so nothing below overflows and all backends agree; and it is 2 modulo
# 3, so that cubing is a permutation of the numbers below it.
_PRIME = 46_337
_ROUNDS = 8


def random_plan(blocks: Any, count: int, seed: int) -> Tensor:
    """For each of `blocks` blocks, `count` different ones out of all, drawn uniformly.

    A function of its arguments alone, with integers that no backend rounds: nothing has to be
    saved. Each row of blocks has its own permutation of the integers modulo a prime, made of
    rounds `x <- (x + key + constant)^3`; the blocks that it puts first are the chosen ones.

    Args:
        blocks: How many blocks there are, an integer or a scalar tensor.
        count: How many each row of blocks attends; all where there are fewer.
        seed: Which plan.

    Returns:
        (blocks, count or fewer) int32, different blocks in each row.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.attention.patterns import random_plan
    >>> np.asarray(random_plan(5, count=2, seed=0)).shape
    (5, 2)
    """
    digest = hashlib.sha256(str(int(seed)).encode()).digest()
    constants = [int.from_bytes(digest[i : i + 2], "big") for i in range(0, 4 * _ROUNDS, 2)]
    index = ops.arange(blocks, dtype="int32")
    key = _permuted(index, constants[:_ROUNDS])
    places = _permuted(index[None, :], constants[_ROUNDS:], key[:, None])
    return ops.cast(ops.argsort(places, axis=-1)[:, :count], "int32")


def _permuted(x: Tensor, constants: list[int], key: Any = 0) -> Tensor:
    """A permutation of 0 ... prime-1 for each key."""
    for constant in constants:
        x = (x + key + constant) % _PRIME
        x = x * x % _PRIME * x % _PRIME
    return x


@keras.saving.register_keras_serializable(package="recsys_attn", name="patterns.RandomBlocks")
@dataclass(frozen=True)
class RandomBlocks(Pattern):
    """Each block of queries attends some random blocks of keys, out of all there are.

    Source: Zaheer et al., "Big Bird: Transformers for Longer Sequences", NeurIPS 2020,
    arXiv 2007.14062. The released code draws from the first 1024 positions only, which are the
    oldest events of a history; here every block is as likely. The paper has another plan for
    each head and layer: give them different seeds, the heads by `PerHead`.

    Args:
        size: Positions of a block; the last one may have fewer.
        count: How many blocks a block attends; all where there are fewer.
        seed: Which plan. A plan also differs by the number of blocks.

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
        plan = random_plan(blocks, self.count, self.seed)
        index = ops.arange(blocks, dtype="int32")
        table = ops.any(plan[:, :, None] == index, axis=1)
        row, column = rows // self.size, columns // self.size
        # Positions before the first or after the last are in no block.
        inside = ops.logical_and(self._exists(row, blocks), self._exists(column, blocks))
        pairs = ops.where(inside, row * blocks + column, 0)
        return ops.logical_and(inside, ops.take(ops.reshape(table, (-1,)), pairs))

    def _exists(self, block: Tensor, blocks: Any) -> Tensor:
        return ops.logical_and(block >= 0, block < blocks)
