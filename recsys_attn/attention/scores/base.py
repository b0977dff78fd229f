"""The base class of scores, and scores made of several scores."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from keras import ops

from recsys_attn.attention.core.head_layout import logits_shape
from recsys_attn.attention.core.places import PlacesAndTimes
from recsys_attn.layer import Layer, build_part
from recsys_attn.registry import Registry
from recsys_attn.tensors import Shape, Tensor


class Score(Layer):
    """The similarity of each query and each key, one number per head.

    Scores add up: `Dot() + Alibi()`.

    Attributes:
        contract: The promise of each score, for errors.
        positional: Whether `call` takes `query_positions` and `key_positions` too.
        uses_times: Whether these positions are times. Patterns and other scores beside it count
            places then.
        needs_every_pair: Whether a logit depends on the other allowed pairs of its sequence, so
            that it cannot be computed in groups.
        encodes_order: Whether it tells an order of the keys from another; defaults to `positional`.
        shares_query_and_key: Whether queries and keys have one projection.
        uses_query, uses_key: Whether it uses the content of queries or keys; if not, the layer
            around it makes no projection of them.

    Call arguments:
        query: (B, T, N, H).
        key: (B, S, N, H). One of the two batches may be 1.
        allowed: Booleans that broadcast to (B, N, T, S), False for pairs that do not count. The
            weighting drops the logits of such pairs; a score with statistics must leave
            them out.
        query_positions, key_positions: For a positional score: integers that broadcast to
            (B, N, T) and (B, N, S), and None for the default ones.

    Returns:
        Logits (B, N, T, S).

    Example:

    >>> import keras
    >>> from recsys_attn.attention.scores import Score
    >>> class NegativeDistance(Score):
    ...     def call(self, query, key, allowed=None):
    ...         difference = query[:, :, None] - key[:, None]  # (B, T, S, N, H)
    ...         distance = keras.ops.norm(difference, axis=-1)
    ...         return -keras.ops.transpose(distance, (0, 3, 1, 2))
    >>> query = keras.random.normal((2, 3, 1, 8))
    >>> key = keras.random.normal((2, 5, 1, 8))
    >>> tuple(NegativeDistance()(query, key).shape)
    (2, 1, 3, 5)
    """

    contract = "finite logits, those of a pair without the keys and values that are not allowed"
    positional = False
    uses_times = False
    needs_every_pair = False
    shares_query_and_key = False
    uses_query = True
    uses_key = True

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        """Creates the weights; the default has none."""

    def call(self, query: Tensor, key: Tensor, allowed: Tensor | None = None) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} must implement `call`")

    @property
    def encodes_order(self) -> bool:
        """Whether the order of the keys matters to it."""
        return self.positional

    @property
    def most_keys(self) -> int | None:
        """Largest number of keys, known after `build`; None for no limit."""
        return None

    def positions(self, both: PlacesAndTimes) -> Any:
        """Returns the places or the times, whichever `call` takes; scores of scores take both."""
        return both.read_by(self)

    def compute_output_shape(self, query_shape: Shape, key_shape: Shape) -> Shape:
        return logits_shape(query_shape, key_shape)

    def __add__(self, other: Score) -> Score:
        return Sum([self, other])


SCORES = Registry("a score", "scores", Score)


def logits_of(
    score: Score,
    query: Tensor,
    key: Tensor,
    allowed: Tensor | None,
    rows: PlacesAndTimes,
    columns: PlacesAndTimes,
) -> Tensor:
    """Calls a score, with the places or the times of queries and keys if it is positional."""
    if not score.positional:
        return score(query, key, allowed=allowed)
    return score(
        query,
        key,
        allowed=allowed,
        query_positions=score.positions(rows),
        key_positions=score.positions(columns),
    )


def take_traits(score: Score, parts: Sequence[Score]) -> None:
    """Gives a score made of scores the traits that one of them has."""
    for trait in (
        *("positional", "uses_times", "needs_every_pair"),
        *("shares_query_and_key", "uses_query", "uses_key"),
    ):
        setattr(score, trait, any(getattr(part, trait) for part in parts))


class Several(Score):
    """A score made of scores; positional, or with one projection, if one of them is.

    Args:
        scores: The scores: instances, names or configs.

    Example:

    >>> from keras import ops
    >>> from recsys_attn.attention.scores.base import Several
    >>> class Largest(Several):
    ...     def call(self, query, key, allowed=None, query_positions=None, key_positions=None):
    ...         logits = self.terms(query, key, allowed, query_positions, key_positions)
    ...         return ops.max(ops.stack(logits), axis=0)
    >>> history = ops.ones((2, 5, 4, 8))
    >>> tuple(Largest(["cosine", "alibi"])(history, history).shape)
    (2, 4, 5, 5)
    """

    positional = True

    def __init__(self, scores: Sequence[Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if isinstance(scores, str) or not isinstance(scores, Sequence) or not scores:
            raise ValueError(
                "`scores` must be a list of at least one score, such as ['scaled_dot', 'alibi']. "
                f"Received: scores={scores!r}"
            )
        self.scores = [SCORES.get(score, dtype=self.dtype_policy) for score in scores]
        take_traits(self, self.scores)

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        for score in self.scores:
            build_part(self, "score", score, query_shape, key_shape)

    @property
    def encodes_order(self) -> bool:
        """Whether the order of the keys matters to one of its scores."""
        return any(score.encodes_order for score in self.scores)

    @property
    def most_keys(self) -> int | None:
        """The smallest limit of its scores."""
        return min((s.most_keys for s in self.scores if s.most_keys is not None), default=None)

    def terms(
        self,
        query: Tensor,
        key: Tensor,
        allowed: Tensor | None,
        query_positions: Any,
        key_positions: Any,
    ) -> list[Tensor]:
        """Returns the logits of every score."""
        rows, columns = (
            PlacesAndTimes.of(x, self.uses_times) for x in (query_positions, key_positions)
        )
        return [logits_of(score, query, key, allowed, rows, columns) for score in self.scores]

    def positions(self, both: PlacesAndTimes) -> PlacesAndTimes:
        return both


@SCORES.register("sum")
class Sum(Several):
    """`score = score_1 + score_2 + ...`; written `first + second`.

    Args:
        scores: The scores: instances, names or configs.

    Call arguments:
        query, key, allowed, query_positions, key_positions: See `Score`.

    Returns:
        Logits (B, N, T, S).

    Example:

    >>> import keras
    >>> from recsys_attn.attention.scores import Additive, Dot
    >>> query = keras.random.normal((2, 3, 1, 8))
    >>> key = keras.random.normal((2, 5, 1, 8))
    >>> tuple((Dot(scale=True) + Additive())(query, key).shape)
    (2, 1, 3, 5)
    """

    def call(
        self,
        query: Tensor,
        key: Tensor,
        allowed: Tensor | None = None,
        query_positions: Tensor | None = None,
        key_positions: Tensor | None = None,
    ) -> Tensor:
        return functools.reduce(
            ops.add, self.terms(query, key, allowed, query_positions, key_positions)
        )
