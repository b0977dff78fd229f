"""The base class of patterns, and combinations of patterns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from keras import ops

from recsys_attn.registry import Registry
from recsys_attn.serialization import deserialize, serialize
from recsys_attn.tensors import Config, Tensor


@dataclass(frozen=True)
class Pattern:
    """The keys that a query may attend, as a function of the positions of both.

    The same object masks a dense matrix, a band or hash-sorted blocks, at any length. Patterns
    combine by `&`, `|` and `~`.

    Call arguments:
        rows: Positions of the queries, integers of shape (B or 1, N or 1, T, 1).
        columns: Positions of the keys, integers of shape (B or 1, N or 1, 1, S).
        length: Number of positions up to the last key that is present, an integer or integers (B or
            1, N or 1, 1, 1), so that padding after it changes nothing. Patterns that use it expect
            positions 0 ... length-1.

    Returns:
        Booleans that broadcast to (B, N, T, S), True where the query may attend the key.

    Example:

    >>> from dataclasses import dataclass
    >>> import keras
    >>> from recsys_attn.attention.patterns import Pattern
    >>> @keras.saving.register_keras_serializable(package="example")
    ... @dataclass(frozen=True)
    ... class EveryOther(Pattern):
    ...     def __call__(self, rows, columns, length):
    ...         return (rows - columns) % 2 == 0
    >>> print((~EveryOther()).matrix(4)[0].astype(int))
    [[0 1 0 1]
     [1 0 1 0]
     [0 1 0 1]
     [1 0 1 0]]
    """

    def __call__(self, rows: Tensor, columns: Tensor, length: Any) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} must implement `__call__`")

    @property
    def is_causal(self) -> bool:
        """Whether no query attends a later key, at any length."""
        return False

    @property
    def hides_future(self) -> bool:
        """Whether it hides a later key from any query because it is later."""
        return self.is_causal

    @property
    def depends_on_length(self) -> bool:
        """Whether the same pair of positions may be allowed at one length and not at another."""
        return False

    @property
    def reach(self) -> int | None:
        """The greatest distance back to a key that a query attends; None for no bound."""
        return None

    @property
    def heads(self) -> int | None:
        """The number of heads; None if all heads have the same pattern."""
        return None

    def take_heads(self, keep: Sequence[int]) -> Pattern:
        """Returns the pattern of some of the heads."""
        return self

    def matrix(self, length: int) -> np.ndarray:
        """Returns the mask of a self-attention, for inspection: (N or 1, length, length)."""
        index = np.arange(length, dtype="int32")
        allowed = self(index.reshape(1, 1, -1, 1), index.reshape(1, 1, 1, -1), length)
        shape = (1, self.heads or 1, length, length)
        return np.broadcast_to(ops.convert_to_numpy(allowed), shape)[0]

    def __and__(self, other: Pattern) -> Pattern:
        return And((self, other))

    def __or__(self, other: Pattern) -> Pattern:
        return Or((self, other))

    def __invert__(self) -> Pattern:
        return Not(self)

    def get_config(self) -> Config:
        return {field.name: _plain(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def from_config(cls, config: Config) -> Pattern:
        return cls(**{name: _revived(value) for name, value in config.items()})


PATTERNS = Registry("a pattern", "patterns", Pattern)


def set_field(pattern: Pattern, name: str, value: Any) -> None:
    """Sets a field of a frozen pattern; only for `__post_init__`."""
    object.__setattr__(pattern, name, value)


def get_all(identifiers: Any) -> tuple[Pattern, ...]:
    """Returns the patterns of a list of instances, names or configs."""
    if not isinstance(identifiers, list | tuple) or not identifiers:
        raise ValueError(
            f"`patterns` must be a list of at least one pattern. Received: patterns={identifiers!r}"
        )
    return tuple(PATTERNS.get(identifier) for identifier in identifiers)


def furthest(patterns: Sequence[Pattern]) -> int | None:
    """Returns the greatest `reach` of several patterns; None if one has no bound."""
    reaches = [pattern.reach for pattern in patterns]
    return None if None in reaches else max(reach for reach in reaches if reach is not None)


@dataclass(frozen=True)
class Combination(Pattern):
    """A pattern made of several patterns."""

    patterns: tuple[Pattern, ...]

    def __post_init__(self) -> None:
        set_field(self, "patterns", get_all(self.patterns))
        made_for = sorted({p.heads for p in self.patterns if p.heads is not None})
        if len(made_for) > 1:
            raise ValueError(
                "Patterns of `&` and `|` must be made for one number of heads. "
                f"Received: patterns for {' and '.join(map(str, made_for))} heads"
            )

    @property
    def hides_future(self) -> bool:
        return any(pattern.hides_future for pattern in self.patterns)

    @property
    def depends_on_length(self) -> bool:
        return any(pattern.depends_on_length for pattern in self.patterns)

    @property
    def heads(self) -> int | None:
        return next((p.heads for p in self.patterns if p.heads is not None), None)

    def take_heads(self, keep: Sequence[int]) -> Pattern:
        return replace(self, patterns=tuple(p.take_heads(keep) for p in self.patterns))


@PATTERNS.register("and")
@dataclass(frozen=True)
class And(Combination):
    """Pairs that every pattern allows; written `first & second`."""

    def __call__(self, rows: Tensor, columns: Tensor, length: Any) -> Tensor:
        allowed = self.patterns[0](rows, columns, length)
        for pattern in self.patterns[1:]:
            allowed = ops.logical_and(allowed, pattern(rows, columns, length))
        return allowed

    @property
    def is_causal(self) -> bool:
        return any(pattern.is_causal for pattern in self.patterns)

    @property
    def reach(self) -> int | None:
        return min((p.reach for p in self.patterns if p.reach is not None), default=None)


@PATTERNS.register("or")
@dataclass(frozen=True)
class Or(Combination):
    """Pairs that any pattern allows; written `first | second`."""

    def __call__(self, rows: Tensor, columns: Tensor, length: Any) -> Tensor:
        allowed = self.patterns[0](rows, columns, length)
        for pattern in self.patterns[1:]:
            allowed = ops.logical_or(allowed, pattern(rows, columns, length))
        return allowed

    @property
    def is_causal(self) -> bool:
        return all(pattern.is_causal for pattern in self.patterns)

    @property
    def reach(self) -> int | None:
        return furthest(self.patterns)


@PATTERNS.register("not")
@dataclass(frozen=True)
class Not(Pattern):
    """Pairs that a pattern does not allow; written `~pattern`."""

    pattern: Pattern

    def __post_init__(self) -> None:
        set_field(self, "pattern", PATTERNS.get(self.pattern))

    def __call__(self, rows: Tensor, columns: Tensor, length: Any) -> Tensor:
        return ops.logical_not(self.pattern(rows, columns, length))

    @property
    def hides_future(self) -> bool:
        return self.pattern.hides_future

    @property
    def depends_on_length(self) -> bool:
        return self.pattern.depends_on_length

    @property
    def heads(self) -> int | None:
        return self.pattern.heads

    def take_heads(self, keep: Sequence[int]) -> Pattern:
        return Not(self.pattern.take_heads(keep))


def require_steady(pattern: Pattern | None, changes: bool = False) -> None:
    """Raises if the past that a causal pattern allows changes when more events follow.

    Args:
        pattern: The pattern of a mechanism.
        changes: Whether the mechanism itself depends on the length.
    """
    if pattern is not None and pattern.is_causal and (pattern.depends_on_length or changes):
        raise ValueError(
            "Random blocks, and blocks or tokens counted from the end, change as soon as an "
            "event is added, so with a causal `pattern` an event would attend other keys in a "
            "longer history. Leave them out, or use a pattern that is not causal. "
            f"Received: pattern={pattern!r}"
        )


def require_heads(pattern: Pattern | None, heads: int | None) -> None:
    """Raises if a pattern has another number of heads."""
    if pattern is not None and pattern.heads not in (None, heads):
        raise ValueError(
            f"`pattern` is made for {pattern.heads} heads, one pattern each. "
            f"Received: num_heads={heads}"
        )


def _plain(value: Any) -> Any:
    if isinstance(value, Pattern):
        return serialize(value)
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _revived(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(_revived(item) for item in value)
    return deserialize(value)
