"""The Sparse Transformer's distant pairs: strided keys, and the last keys of blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from recsys_attn.attention.patterns.base import PATTERNS, Pattern
from recsys_attn.checks import require_positive
from recsys_attn.tensors import Tensor


@PATTERNS.register("strided")
@dataclass(frozen=True)
class Strided(Pattern):
    """Keys a multiple of `stride` away: `(t - s) mod stride = 0`.

    The paper's strided attention is `(Local(stride, 0) | Strided(stride)) & Causal()`. Over a
    history in time steps it compares an hour with the same hour of other days.

    Source: Child, Gray, Radford and Sutskever, "Generating Long Sequences with Sparse
    Transformers", 2019, arXiv 1904.10509.

    Args:
        stride: Distance between keys; the square root of the length is a good choice.

    Example:

    >>> from recsys_attn.attention.patterns import Causal, Local, Strided
    >>> print(((Local(2, 0) | Strided(2)) & Causal()).matrix(5)[0].astype(int))
    [[1 0 0 0 0]
     [1 1 0 0 0]
     [1 1 1 0 0]
     [0 1 1 1 0]
     [1 0 1 1 1]]
    """

    stride: int

    def __post_init__(self) -> None:
        require_positive("stride", self.stride)

    def __call__(self, rows: Tensor, columns: Tensor, length: Any) -> Tensor:
        return (rows - columns) % self.stride == 0


@PATTERNS.register("fixed")
@dataclass(frozen=True)
class Fixed(Pattern):
    """The last keys of every block, as its summary: `s mod stride >= stride - summary`.

    The paper's fixed attention is `(Block(stride) | Fixed(stride, summary)) & Causal()`.

    Source: Child, Gray, Radford and Sutskever, "Generating Long Sequences with Sparse
    Transformers", 2019, arXiv 1904.10509; it takes a stride of 128 and 8 to 32 keys.

    Args:
        stride: Size of a block.
        summary: Number of keys at the end of each block.

    Example:

    >>> from recsys_attn.attention.patterns import Block, Causal, Fixed
    >>> print(((Block(2) | Fixed(2, 1)) & Causal()).matrix(5)[0].astype(int))
    [[1 0 0 0 0]
     [1 1 0 0 0]
     [0 1 1 0 0]
     [0 1 1 1 0]
     [0 1 0 1 1]]
    """

    stride: int
    summary: int

    def __post_init__(self) -> None:
        require_positive("stride", self.stride)
        require_positive("summary", self.summary)
        if self.summary > self.stride:
            raise ValueError(
                "`summary` must be at most `stride`, the size of a block. "
                f"Received: summary={self.summary}, stride={self.stride}"
            )

    def __call__(self, rows: Tensor, columns: Tensor, length: Any) -> Tensor:
        return columns % self.stride >= self.stride - self.summary
