"""Patterns of distance: all keys, the past, a window, a window with gaps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from keras import ops

from recsys_attn.attention.patterns.base import PATTERNS, Pattern, set_field
from recsys_attn.checks import require_not_negative, require_positive
from recsys_attn.tensors import Tensor


@PATTERNS.register("full")
@dataclass(frozen=True)
class Full(Pattern):
    """Every key; one head's part of `PerHead`, or the limit of the others.

    Source: Vaswani et al., "Attention Is All You Need", NIPS 2017, arXiv 1706.03762.

    Example:

    >>> from recsys_attn.attention.patterns import Full
    >>> print(Full().matrix(2)[0].astype(int))
    [[1 1]
     [1 1]]
    """

    def __call__(self, rows: Tensor, columns: Tensor, length: Any) -> Tensor:
        return ops.ones_like(rows - columns, dtype="bool")


@PATTERNS.register("causal")
@dataclass(frozen=True)
class Causal(Pattern):
    """Keys up to the query and the query itself: `s <= t`.

    Source: Vaswani et al., "Attention Is All You Need", NIPS 2017, arXiv 1706.03762.

    Example:

    >>> from recsys_attn.attention.patterns import Causal
    >>> print(Causal().matrix(3)[0].astype(int))
    [[1 0 0]
     [1 1 0]
     [1 1 1]]
    """

    def __call__(self, rows: Tensor, columns: Tensor, length: Any) -> Tensor:
        return columns <= rows

    @property
    def is_causal(self) -> bool:
        return True


@PATTERNS.register("local")
@dataclass(frozen=True)
class Local(Pattern):
    """A window around the query: `t - before <= s <= t + after`.

    Source: Beltagy, Peters and Cohan, "Longformer: The Long-Document Transformer", 2020,
    arXiv 2004.05150; its window of 512 is `Local(256)`.

    Args:
        before: Number of keys before the query.
        after: Number of keys after the query. Defaults to `before`; 0 makes the window causal.

    Example:

    >>> from recsys_attn.attention.patterns import Local
    >>> print(Local(1).matrix(4)[0].astype(int))
    [[1 1 0 0]
     [1 1 1 0]
     [0 1 1 1]
     [0 0 1 1]]
    """

    before: int
    after: int | None = None

    def __post_init__(self) -> None:
        require_not_negative("before", self.before)
        if self.after is None:
            set_field(self, "after", self.before)
        require_not_negative("after", self.after)
        if self.before == 0 == self.after:
            raise ValueError(
                "A window must reach beyond the query itself: give a `before` of at least 1. "
                "Received: before=0, after=0"
            )

    def __call__(self, rows: Tensor, columns: Tensor, length: Any) -> Tensor:
        ahead = columns - rows
        return ops.logical_and(ahead >= -self.before, ahead <= self.after)

    @property
    def is_causal(self) -> bool:
        return self.after == 0

    @property
    def hides_future(self) -> bool:
        return (self.after or 0) < self.before

    @property
    def reach(self) -> int:
        return self.before


@PATTERNS.register("dilated")
@dataclass(frozen=True)
class Dilated(Pattern):
    """A window that skips keys: `s = t + dilation * k` for `|k| <= window`.

    It reaches `dilation` times as far as `Local(window)` at the same cost. With `PerHead` some
    heads can have a larger dilation.

    Source: Beltagy, Peters and Cohan, "Longformer: The Long-Document Transformer", 2020,
    arXiv 2004.05150.

    Args:
        window: Number of keys on each side of the query.
        dilation: Distance between keys.

    Example:

    >>> from recsys_attn.attention.patterns import Dilated
    >>> print(Dilated(1, dilation=2).matrix(5)[0].astype(int))
    [[1 0 1 0 0]
     [0 1 0 1 0]
     [1 0 1 0 1]
     [0 1 0 1 0]
     [0 0 1 0 1]]
    """

    window: int
    dilation: int

    def __post_init__(self) -> None:
        require_positive("window", self.window)
        require_positive("dilation", self.dilation)

    def __call__(self, rows: Tensor, columns: Tensor, length: Any) -> Tensor:
        ahead = columns - rows
        near = ops.logical_and(
            ahead >= -self.window * self.dilation, ahead <= self.window * self.dilation
        )
        return ops.logical_and(near, ahead % self.dilation == 0)

    @property
    def reach(self) -> int:
        return self.window * self.dilation
