"""The base class of scores around another score."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from recsys_attn.attention.core.places import PlacesAndTimes
from recsys_attn.attention.scores.base import SCORES, Score, logits_of, take_traits
from recsys_attn.layer import build_part
from recsys_attn.tensors import Shape, Tensor


class Wrapper(Score):
    """A score around another one; positional, or with one projection, if that one is.

    A subclass changes the inputs of the score inside, or its logits.

    Args:
        score: The score inside: an instance, a name or a config.

    Call arguments:
        query, key, allowed, query_positions, key_positions: See `Score`.

    Returns:
        Logits (B, N, T, S).

    Example:

    >>> from keras import ops
    >>> from recsys_attn.attention.scores.wrapper import Wrapper
    >>> class Squared(Wrapper):
    ...     def changed(self, logits):
    ...         return ops.square(logits)
    >>> history = ops.ones((2, 5, 4, 8))
    >>> tuple(Squared("alibi")(history, history).shape)
    (2, 4, 5, 5)
    """

    positional = True

    def __init__(self, score: Any = "scaled_dot", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.score = SCORES.get(score, dtype=self.dtype_policy)
        take_traits(self, [self.score])

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        build_part(self, "score", self.score, query_shape, key_shape)

    @property
    def encodes_order(self) -> bool:
        return self.score.encodes_order

    @property
    def most_keys(self) -> int | None:
        return self.score.most_keys

    def prepared(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the query and the key that the score inside receives."""
        return query, key

    def changed(self, logits: Tensor) -> Tensor:
        """Returns the logits, made of those of the score inside."""
        return logits

    def call(
        self,
        query: Tensor,
        key: Tensor,
        allowed: Tensor | None = None,
        query_positions: Tensor | None = None,
        key_positions: Tensor | None = None,
    ) -> Tensor:
        query, key = self.prepared(query, key)
        rows, columns = (
            PlacesAndTimes.of(x, self.uses_times) for x in (query_positions, key_positions)
        )
        return self.changed(logits_of(self.score, query, key, allowed, rows, columns))

    def positions(self, both: PlacesAndTimes) -> PlacesAndTimes:
        return both


def nested(score: Score) -> Iterator[Score]:
    """Yields a score and the scores inside it."""
    yield score
    inside = [score.score] if hasattr(score, "score") else getattr(score, "scores", [])
    for part in inside:
        yield from nested(part)
