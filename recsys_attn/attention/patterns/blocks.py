"""Patterns of blocks: a block and its neighbours, and the blocks at the ends."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

from keras import ops

from recsys_attn.attention.patterns.base import PATTERNS, Pattern, set_field
from recsys_attn.checks import require_not_negative, require_positive
from recsys_attn.tensors import Tensor


def block_count(length: Any, size: int) -> Any:
    """Returns the number of blocks, the last of them perhaps incomplete; at least one."""
    blocks = (length + size - 1) // size
    # An integer stays an integer: JAX makes no range of a traced size.
    return max(blocks, 1) if isinstance(blocks, Integral) else ops.maximum(blocks, 1)


@PATTERNS.register("block")
@dataclass(frozen=True)
class Block(Pattern):
    """Keys of the query's block and of some neighbouring blocks.

    `floor(t / size) - before <= floor(s / size) <= floor(t / size) + after`

    `Block(64, 1)` is the band of BigBird. Even without later blocks, a query attends its own block
    to the end; the causal form is `Block(size) & Causal()`.

    Source: Zaheer et al., "Big Bird: Transformers for Longer Sequences", NeurIPS 2020,
    arXiv 2007.14062.

    Args:
        size: Number of positions in a block.
        before: Number of earlier blocks. Defaults to 0.
        after: Number of later blocks. Defaults to `before`.

    Example:

    >>> from recsys_attn.attention.patterns import Block
    >>> print(Block(2).matrix(5)[0].astype(int))
    [[1 1 0 0 0]
     [1 1 0 0 0]
     [0 0 1 1 0]
     [0 0 1 1 0]
     [0 0 0 0 1]]
    """

    size: int
    before: int = 0
    after: int | None = None

    def __post_init__(self) -> None:
        require_positive("size", self.size)
        require_not_negative("before", self.before)
        if self.after is None:
            set_field(self, "after", self.before)
        require_not_negative("after", self.after)

    def __call__(self, rows: Tensor, columns: Tensor, length: Any) -> Tensor:
        ahead = columns // self.size - rows // self.size
        return ops.logical_and(ahead >= -self.before, ahead <= self.after)

    @property
    def is_causal(self) -> bool:
        return self.size == 1 and self.after == 0

    @property
    def hides_future(self) -> bool:
        return (self.after or 0) < self.before

    @property
    def reach(self) -> int:
        return self.size * (self.before + 1) - 1


@PATTERNS.register("edge_blocks")
@dataclass(frozen=True)
class EdgeBlocks(Pattern):
    """The first and the last blocks attend all blocks and are attended by all.

    BigBird over existing positions is `Block(64, 1) | EdgeBlocks(64) | RandomBlocks(64, 3)`. The
    last block is that of the last key that is present.

    Source: Zaheer et al., "Big Bird: Transformers for Longer Sequences", NeurIPS 2020,
    arXiv 2007.14062.

    Args:
        size: Number of positions in a block; the last one may have fewer.
        count: Number of blocks at each end.

    Example:

    >>> from recsys_attn.attention.patterns import EdgeBlocks
    >>> print(EdgeBlocks(2).matrix(5)[0].astype(int))
    [[1 1 1 1 1]
     [1 1 1 1 1]
     [1 1 0 0 1]
     [1 1 0 0 1]
     [1 1 1 1 1]]
    """

    size: int
    count: int = 1

    def __post_init__(self) -> None:
        require_positive("size", self.size)
        require_positive("count", self.count)

    def __call__(self, rows: Tensor, columns: Tensor, length: Any) -> Tensor:
        blocks = block_count(length, self.size)
        return ops.logical_or(self._at_an_end(rows, blocks), self._at_an_end(columns, blocks))

    @property
    def depends_on_length(self) -> bool:
        return True

    def _at_an_end(self, positions: Tensor, blocks: Any) -> Tensor:
        block = positions // self.size
        last = ops.logical_and(block >= blocks - self.count, block < blocks)
        return ops.logical_or(block < self.count, last)
