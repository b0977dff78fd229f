"""A score of the position of the key."""

from __future__ import annotations

from typing import Any

from recsys_attn.attention.core.head_layout import head_sizes
from recsys_attn.attention.scores.base import SCORES, Score
from recsys_attn.attention.scores.position_tables import (
    known_length,
    places_within,
    project_at,
    spread,
)
from recsys_attn.checks import require_positive
from recsys_attn.initializers import blockwise
from recsys_attn.tensors import Shape, Tensor


@SCORES.register("location")
class Location(Score):
    """`score = (W q)[j]` for a key at j; independent of the content of the key.

    The W of a head has one row for each of `length` positions.

    Source: Luong et al., "Effective Approaches to Attention-based Neural Machine Translation",
    EMNLP 2015, arXiv 1508.04025.

    Args:
        length: Largest number of keys. Defaults to the number of keys in `build`.

    Call arguments:
        query, key, allowed: See `Score`.
        query_positions: Not used.
        key_positions: Integers that broadcast to (B, N, S). A position outside of
            0 ... length - 1 reads the nearest end.

    Returns:
        Logits (B, N, T, S).

    Raises:
        ValueError: There are more keys than `length`.

    Example:

    >>> import keras
    >>> from recsys_attn.attention.scores import Location
    >>> query = keras.random.normal((2, 3, 1, 8))
    >>> key = keras.random.normal((2, 5, 1, 4))
    >>> tuple(Location(length=50)(query, key).shape)
    (2, 1, 3, 5)
    """

    positional = True
    uses_key = False

    def __init__(self, length: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if length is not None:
            require_positive("length", length)
        self.length = length

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        heads, query_size, _ = head_sizes(query_shape, key_shape)
        self.kernel = self.add_weight(
            shape=(heads, query_size, known_length(self.length, key_shape)),
            initializer=blockwise(heads, axis=0),
            name="kernel",
        )

    @property
    def most_keys(self) -> int:
        return self.kernel.shape[-1]

    def call(
        self,
        query: Tensor,
        key: Tensor,
        allowed: Tensor | None = None,
        query_positions: Tensor | None = None,
        key_positions: Tensor | None = None,
    ) -> Tensor:
        _, columns = places_within(self.most_keys, query, key, query_positions, key_positions)
        return spread(project_at(query, self.kernel, None, columns), query, key)
