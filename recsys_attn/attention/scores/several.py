"""What scores made of several scores have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recsys_attn.attention.scores.base import Score, inner_score, logits_of
from recsys_attn.layer import build_part
from recsys_attn.serialization import serialize
from recsys_attn.tensors import Config, Shape, Tensor


class Several(Score):
    """Holds scores; where one looks at positions or shares the projection, so does the whole.

    Args:
        scores: The scores: instances, names or configs.

    Example:

    >>> from keras import ops
    >>> from recsys_attn.attention.scores.several import Several
    >>> class Largest(Several):
    ...     def call(self, query, key, allowed=None, query_positions=None, key_positions=None):
    ...         each = self.each(query, key, allowed, query_positions, key_positions)
    ...         return ops.max(ops.stack(each), axis=0)
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
        self.scores = [inner_score(score, self.dtype_policy) for score in scores]
        self.positional = any(score.positional for score in self.scores)
        self.shares_query_and_key = any(score.shares_query_and_key for score in self.scores)
        self.uses_query = any(score.uses_query for score in self.scores)
        self.uses_key = any(score.uses_key for score in self.scores)

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        for score in self.scores:
            build_part(self, "score", score, query_shape, key_shape)

    @property
    def most_keys(self) -> int | None:
        """The least of what its scores can tell apart."""
        return min((s.most_keys for s in self.scores if s.most_keys is not None), default=None)

    def each(
        self,
        query: Tensor,
        key: Tensor,
        allowed: Tensor | None,
        query_positions: Tensor | None,
        key_positions: Tensor | None,
    ) -> list[Tensor]:
        """The logits of every score."""
        return [
            logits_of(score, query, key, allowed, query_positions, key_positions)
            for score in self.scores
        ]

    def get_config(self) -> Config:
        return {**super().get_config(), "scores": [serialize(score) for score in self.scores]}
