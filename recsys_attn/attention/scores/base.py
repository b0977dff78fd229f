"""What every score has in common."""

from __future__ import annotations

from typing import Any

from recsys_attn.attention.core.head_layout import logits_shape
from recsys_attn.layer import Layer
from recsys_attn.tensors import Shape, Tensor


class Score(Layer):
    """How similar each query is to each key, one number a head.

    Scores add up: `Dot() + Alibi()`.

    Attributes:
        positional: Whether `call` takes `query_positions` and `key_positions` too, integers that
            broadcast to (B, N, T) and (B, N, S), and None for the natural ones.
        shares_query_and_key: Whether the layer around it makes the keys with the projection of
            the queries.
        uses_query, uses_key: Whether it looks at what a query or a key holds; if not, the layer
            around it makes no projection for it.

    Call arguments:
        query: (B, T, N, H).
        key: (B, S, N, H). One of the two batches may be 1.
        allowed: Booleans that broadcast to (B, N, T, S), False for pairs that do not count.
            Logits of such pairs are returned all the same, and are the weighting's to drop;
            a score that keeps statistics leaves them out.

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

    positional = False
    shares_query_and_key = False
    uses_query = True
    uses_key = True

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        """Makes the weights; a score without any need not say so."""

    def call(self, query: Tensor, key: Tensor, allowed: Tensor | None = None) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} must implement `call`")

    @property
    def most_keys(self) -> int | None:
        """The most keys that it can tell apart, known when it is built; None for any number."""
        return None

    def compute_output_shape(self, query_shape: Shape, key_shape: Shape) -> Shape:
        return logits_shape(query_shape, key_shape)

    def __add__(self, other: Score) -> Score:
        from recsys_attn.attention.scores.sum import Sum  # which is a score itself

        return Sum([self, other])


def logits_of(
    score: Score,
    query: Tensor,
    key: Tensor,
    allowed: Tensor | None,
    query_positions: Tensor | None,
    key_positions: Tensor | None,
) -> Tensor:
    """Calls a score, with the positions where it looks at them."""
    if not score.positional:
        return score(query, key, allowed=allowed)
    return score(
        query,
        key,
        allowed=allowed,
        query_positions=query_positions,
        key_positions=key_positions,
    )


def inner_score(identifier: Any, dtype: Any) -> Score:
    """A score that another score holds, from an instance, a name or a config."""
    from recsys_attn.attention.scores.family import get  # which knows the holder too

    return get(identifier, dtype=dtype)
