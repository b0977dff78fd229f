"""Patterns of global positions: chosen ones, prepended ones, a prefix."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

from keras import ops

from recsys_attn.attention.patterns.base import PATTERNS, Pattern, set_field
from recsys_attn.checks import require_positive
from recsys_attn.tensors import Tensor


@PATTERNS.register("global")
@dataclass(frozen=True)
class Global(Pattern):
    """Some positions attend everything and are attended by all: `t in G or s in G`.

    Longformer is `Local(256) | Global((0,))`; its second set of projections is an option of
    `Routed`.

    Source: Beltagy, Peters and Cohan, "Longformer: The Long-Document Transformer", 2020,
    arXiv 2004.05150.

    Args:
        positions: G; negative positions count from the last key that is present.

    Example:

    >>> from recsys_attn.attention.patterns import Global, Local
    >>> print((Local(1, 0) | Global((0, -1))).matrix(5)[0].astype(int))
    [[1 1 1 1 1]
     [1 1 0 0 1]
     [1 1 1 0 1]
     [1 0 1 1 1]
     [1 1 1 1 1]]
    """

    positions: tuple[int, ...]

    def __post_init__(self) -> None:
        positions = self.positions
        if (
            not isinstance(positions, list | tuple)
            or not positions
            or any(not isinstance(p, Integral) or isinstance(p, bool) for p in positions)
        ):
            raise ValueError(
                "`positions` must be a list of at least one integer. "
                f"Received: positions={positions!r}"
            )
        set_field(self, "positions", tuple(int(position) for position in positions))

    def __call__(self, rows: Tensor, columns: Tensor, length: Any) -> Tensor:
        positions = ops.convert_to_tensor(self.positions, dtype="int32")
        length = ops.cast(length, "int32")[..., None]
        chosen = ops.where(positions < 0, positions + length, positions)
        return ops.logical_or(_among(rows, chosen), _among(columns, chosen))

    @property
    def depends_on_length(self) -> bool:
        return min(self.positions) < 0


def _among(positions: Tensor, chosen: Tensor) -> Tensor:
    return ops.any(ops.expand_dims(positions, -1) == chosen, axis=-1)


@PATTERNS.register("prepended")
@dataclass(frozen=True)
class Prepended(Pattern):
    """The first `count` positions are global; another pattern applies to the rest.

    For a sequence with extra tokens in front (a profile, learned latents), which `PrependTokens`
    adds and removes. A causal pattern inside it is not causal as a whole: through the global
    positions a second layer depends on the future.

    Source: Ainslie et al., "ETC: Encoding Long and Structured Inputs in Transformers",
    EMNLP 2020, arXiv 2004.08483.

    Args:
        count: Number of global positions in front.
        pattern: The pattern of the others, with positions from 0 and a length that is `count` less:
            an instance, a name or a config of `recsys_attn.attention.patterns`.

    Example:

    >>> from recsys_attn.attention.patterns import Block, Prepended
    >>> print(Prepended(1, Block(2)).matrix(5)[0].astype(int))
    [[1 1 1 1 1]
     [1 1 1 0 0]
     [1 1 1 0 0]
     [1 0 0 1 1]
     [1 0 0 1 1]]
    """

    count: int
    pattern: Pattern

    def __post_init__(self) -> None:
        require_positive("count", self.count)
        set_field(self, "pattern", PATTERNS.get(self.pattern))

    def __call__(self, rows: Tensor, columns: Tensor, length: Any) -> Tensor:
        inner = self.pattern(rows - self.count, columns - self.count, length - self.count)
        outer = ops.logical_or(rows < self.count, columns < self.count)
        return ops.logical_or(outer, inner)

    @property
    def hides_future(self) -> bool:
        return self.pattern.hides_future

    @property
    def depends_on_length(self) -> bool:
        return self.pattern.depends_on_length

    @property
    def heads(self) -> int | None:
        return self.pattern.heads

    def take_heads(self, keep: Any) -> Pattern:
        return Prepended(self.count, self.pattern.take_heads(keep))


@PATTERNS.register("prefix")
@dataclass(frozen=True)
class Prefix(Pattern):
    """A prefix that all positions attend, and causal attention after it: `s < length or s <= t`.

    Source: Raffel et al., "Exploring the Limits of Transfer Learning with a Unified
    Text-to-Text Transformer", JMLR 2020, arXiv 1910.10683.

    Args:
        length: Number of positions of the prefix. For one length per example see `masks.prefix`.

    Example:

    >>> from recsys_attn.attention.patterns import Prefix
    >>> print(Prefix(2).matrix(4)[0].astype(int))
    [[1 1 0 0]
     [1 1 0 0]
     [1 1 1 0]
     [1 1 1 1]]
    """

    length: int

    def __post_init__(self) -> None:
        require_positive("length", self.length)

    def __call__(self, rows: Tensor, columns: Tensor, length: Any) -> Tensor:
        return ops.logical_or(columns < self.length, columns <= rows)

    @property
    def hides_future(self) -> bool:
        return True
