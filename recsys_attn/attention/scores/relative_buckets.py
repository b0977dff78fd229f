"""T5's relative bias: a learned number for every range of distances."""

from __future__ import annotations

from typing import Any

import numpy as np
from keras import ops

from recsys_attn.attention.core.head_layout import head_sizes
from recsys_attn.attention.scores.base import SCORES, Score
from recsys_attn.attention.scores.position_tables import distances, spread
from recsys_attn.backend.head_tables import read
from recsys_attn.checks import require_bool, require_positive
from recsys_attn.initializers import blockwise
from recsys_attn.tensors import Shape, Tensor


@SCORES.register("relative_buckets")
class RelativeBuckets(Score):
    """`score = table[bucket(i - j)]` for a query at i and a key at j, with a table of each head.

    Half of the buckets hold one distance each, the others ranges that grow exponentially, and the
    last one all distances from `max_distance` on.

    Source: Raffel et al., "Exploring the Limits of Transfer Learning with a Unified Text-to-Text
    Transformer" (T5), JMLR 2020, arXiv 1910.10683.

    Args:
        num_buckets: Number of buckets, even if `bidirectional`. Defaults to 32.
        max_distance: Start of the last bucket; raise it for long histories.
        bidirectional: Whether half of the buckets are for keys after the query; otherwise those are
            in the bucket of distance 0.

    Call arguments:
        query, key, allowed, query_positions, key_positions: See `Score`.

    Returns:
        Logits (B, N, T, S).

    Example:

    >>> import keras
    >>> from recsys_attn.attention.scores import Dot, RelativeBuckets
    >>> history = keras.random.normal((2, 5, 1, 8))
    >>> tuple((Dot() + RelativeBuckets())(history, history).shape)
    (2, 1, 5, 5)
    """

    positional = True
    uses_query = False
    uses_key = False

    def __init__(
        self,
        num_buckets: int = 32,
        max_distance: int = 128,
        bidirectional: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_positive("num_buckets", num_buckets)
        require_positive("max_distance", max_distance)
        require_bool("bidirectional", bidirectional)
        if bidirectional and num_buckets % 2:
            raise ValueError(
                "`num_buckets` must be even with bidirectional=True, half for each direction. "
                f"Received: num_buckets={num_buckets}"
            )
        one_way = num_buckets // 2 if bidirectional else num_buckets
        if not 1 <= one_way // 2 < max_distance:
            raise ValueError(
                "`max_distance` must be greater than the half of a direction's buckets that hold "
                "one distance each, and a direction must have at least 2 buckets. Received: "
                f"{one_way} buckets in a direction, max_distance={max_distance}"
            )
        self.num_buckets = num_buckets
        self.max_distance = max_distance
        self.bidirectional = bidirectional

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        heads, _, _ = head_sizes(query_shape, key_shape)
        # In float32: the gradient of a bucket is a sum over many pairs.
        self.table = self.add_weight(
            shape=(heads, self.num_buckets),
            initializer=blockwise(heads, axis=0, initializer="random_normal"),
            name="table",
            autocast=False,
        )
        signed = range(-self.max_distance, self.max_distance + 1)
        self._buckets = np.array([self.bucket(distance) for distance in signed], dtype="int32")

    def bucket(self, distance: int) -> int:
        """Returns the bucket of a query that is `distance` positions after the key."""
        distance = int(distance)  # NumPy's integers overflow in the powers below
        buckets, first = self.num_buckets, 0
        if self.bidirectional:
            buckets //= 2
            first = buckets if distance < 0 else 0
            distance = abs(distance)
        distance = max(distance, 0)
        exact = buckets // 2
        if distance < exact:
            return first + distance
        # Bucket exact + m starts at exact (max_distance / exact)^(m / ranges). Compared in
        # integers, since a logarithm may round to just below a bound.
        ranges = buckets - exact
        passed = sum(
            distance**ranges >= self.max_distance**m * exact ** (ranges - m)
            for m in range(1, ranges)
        )
        return first + exact + passed

    def call(
        self,
        query: Tensor,
        key: Tensor,
        allowed: Tensor | None = None,
        query_positions: Tensor | None = None,
        key_positions: Tensor | None = None,
    ) -> Tensor:
        distance = distances(query, key, query_positions, key_positions)
        distance = ops.clip(distance, -self.max_distance, self.max_distance)
        buckets = ops.take(self._buckets, distance + self.max_distance, axis=0)
        logits = ops.cast(read(self.table, buckets), self.compute_dtype)
        return spread(logits, query, key)
