"""The pairs that meet in the router `Blocks`, as a pattern."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from keras import ops

from recsys_attn.attention.patterns.base import Pattern
from recsys_attn.attention.patterns.blocks import block_count
from recsys_attn.attention.patterns.tokens import Global
from recsys_attn.attention.routers.random_routes import random_pattern
from recsys_attn.tensors import Tensor


@dataclass(frozen=True)
class MeetingBlocks(Pattern):
    """The pairs inside the groups of `Blocks`."""

    router: Any

    def __call__(self, rows: Tensor, columns: Tensor, length: Any) -> Tensor:
        router, count = self.router, block_count(length, self.router.size)
        row, column = rows // router.size, columns // router.size
        ahead = column - row
        pairs = ops.logical_and(ahead >= -router.before, ahead <= router.after)
        for block in (row, column):
            at_an_end = ops.logical_or(block < router.first, block >= count - router.last)
            pairs = ops.logical_or(pairs, at_an_end)
        if router.random:
            drawn = random_pattern(router.size, router.random, router.seed)
            pairs = ops.logical_or(pairs, drawn(rows, columns, length))
        if router.tokens:
            pairs = ops.logical_or(pairs, Global(router.tokens)(rows, columns, length))
        return pairs

    @property
    def heads(self) -> int | None:
        seed = self.router.seed
        return len(seed) if self.router.random and isinstance(seed, tuple) else None
