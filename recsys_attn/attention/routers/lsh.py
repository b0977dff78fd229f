"""Groups of tokens of similar direction, found by hashing."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from recsys_attn.attention.core.head_layout import per_head
from recsys_attn.attention.routers.base import ROUTERS, Router
from recsys_attn.attention.routers.group_layout import (
    each_once,
    looked_up,
    one_size,
    reduced,
)
from recsys_attn.attention.routers.groups import Groups
from recsys_attn.attention.routers.sorted_buckets import SortedBuckets
from recsys_attn.checks import require_bool, require_positive
from recsys_attn.tensors import Shape, Tensor


@ROUTERS.register("lsh")
class Lsh(Router):
    """Groups tokens that a random rotation hashes to the same bucket.

    `bucket(x) = argmax([x R; -x R])`, with R (H, buckets / 2) random and fixed.

    The tokens are sorted by (bucket, position) and cut into chunks; each token attends those of its
    bucket in its own chunk and the previous one. Several rounds are one softmax over their union:
    their outputs are merged by mass, and the logit of a pair that occurs in m rounds is lowered by
    `log m`. Padding has its own bucket, so it displaces no token. One chunk and one bucket are
    `Dense("shared_dot")`.

    Only keys are hashed, since queries and keys have one projection. Hashing has no gradient.

    With `causal` each token attends the last `size` tokens of its bucket up to itself, in each
    round. Later tokens change nothing. (In the paper the borders of chunks depend on all
    tokens, so the future decides which earlier ones a token attends.) One bucket with a size of S
    is a causal `Dense("shared_dot")`.

    In `Lookup` queries are hashed too: in each round a query finds the last `size` keys of its
    bucket, each key once.

    Source: Kitaev et al., "Reformer: The Efficient Transformer", ICLR 2020, arXiv 2001.04451.
    By default the authors' code neither stays inside the bucket nor applies the correction; here
    both are as in the paper. There the first chunk attends the last one; here no chunk is before
    it.

    Args:
        size: Number of tokens of a chunk, and of keys found per round in `Lookup` and with
            `causal`.
        buckets: Number of buckets, even, or 1. `2 S / size` is a good choice.
        rounds: Number of rotations; raise it to miss fewer similar pairs, at a higher cost.
        causal: Whether tokens attend earlier ones only. Defaults to False.

    Example:

    >>> import keras
    >>> from recsys_attn.attention.mechanisms import Routed
    >>> from recsys_attn.attention.routers import Lsh
    >>> events = keras.random.normal((2, 1000, 4, 8))
    >>> output, _ = Routed(Lsh(64, buckets=32, rounds=2))(events, events, events)
    >>> tuple(output.shape)
    (2, 1000, 4, 8)
    """

    default_score = "shared_dot"
    shares_query_and_key = True
    content_based = True

    def __init__(
        self,
        size: int = 64,
        buckets: int = 32,
        rounds: int = 1,
        causal: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_bool("causal", causal)
        require_positive("size", size)
        require_positive("buckets", buckets)
        require_positive("rounds", rounds)
        if buckets % 2 and buckets != 1:
            raise ValueError(
                "`buckets` must be even, since a rotation gives two buckets for each direction; "
                f"or 1 for a single one. Received: buckets={buckets}"
            )
        self.size = size
        self.buckets = buckets
        self.rounds = rounds
        self.causal = causal

    def build(self, query_shape: Shape, key_shape: Shape, value_shape: Shape) -> None:
        heads, size = one_size(query_shape, key_shape, "Lsh")
        self.rotations = None
        if self.buckets > 1:
            self.rotations = self.add_weight(
                shape=(heads, size, self.rounds * self.buckets // 2),
                initializer=keras.initializers.RandomNormal(stddev=1.0),
                trainable=False,
                dtype="float32",
                autocast=False,
                name="rotations",
            )

    def group(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        query_mask: Tensor | None,
        key_mask: Tensor | None,
        training: bool | None,
    ) -> list[Groups]:
        return [self._sorted.group(query, key, value, self._buckets(key, key_mask))]

    def look_up(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        query_mask: Tensor | None,
        key_mask: Tensor | None,
        query_positions: Tensor,
        key_positions: Tensor,
        training: bool | None,
    ) -> Groups:
        newest = self._newest(self._buckets(key, key_mask), self._hash(query), key_positions)
        batch, heads, rounds, queries, few = ops.shape(newest)
        index = ops.transpose(newest, (0, 1, 3, 2, 4))
        index = ops.reshape(index, (batch, heads, queries, rounds * few))
        index = each_once(index) if rounds > 1 else index
        return looked_up(query, key, value, index, query_positions, key_positions)

    def _newest(self, buckets: Tensor, wanted: Tensor, positions: Tensor) -> Tensor:
        """Returns the last keys of some buckets; -1 if there are fewer.

        (B, N, rounds, S), (B, N, rounds, T), (B or 1, N or 1, S) -> (B, N, rounds, T, size).
        """
        batch, heads, rounds, length = ops.shape(buckets)
        age = ops.argsort(ops.argsort(positions, axis=-1), axis=-1)
        ticket = buckets * length + ops.cast(age, "int32")[:, :, None]
        order = ops.cast(ops.argsort(ticket, axis=-1), "int32")
        # In this order bucket c ends after the keys of the buckets 0 ... c.
        number = batch * heads * rounds
        first = ops.arange(number, dtype="int32")[:, None] * (self.buckets + 1)
        cells = ops.reshape(first + ops.reshape(buckets, (number, length)), (number * length,))
        ones, count = ops.ones_like(cells), number * (self.buckets + 1)
        counts = reduced(ops.segment_sum, ones, cells, count)
        counts = ops.reshape(counts, (batch, heads, rounds, self.buckets + 1))
        ends = ops.cumsum(counts, axis=-1)
        count, end = (ops.take_along_axis(x, wanted, axis=-1)[..., None] for x in (counts, ends))
        few = min(self.size, length) if isinstance(length, int) else self.size
        back = ops.arange(1, few + 1, dtype="int32")
        queries = ops.shape(wanted)[3]
        place = ops.maximum(end - back, 0)
        place = ops.reshape(place, (batch, heads, rounds, queries * few))
        index = ops.take_along_axis(order, place, axis=-1)
        index = ops.reshape(index, (batch, heads, rounds, queries, few))
        return ops.where(back <= count, index, -1)

    def _buckets(self, key: Tensor, key_mask: Tensor | None) -> Tensor:
        """(B, N, rounds, S); padding is in one more bucket, after all others."""
        buckets = self._hash(key)
        if key_mask is None:
            return buckets
        return ops.where(key_mask[:, None, None, :], buckets, self.buckets)

    def _hash(self, x: Tensor) -> Tensor:
        """(B, S, N, H) -> a bucket for each head and round (B, N, rounds, S)."""
        batch, length, heads, _ = ops.shape(x)
        if self.rotations is None:
            return ops.zeros((batch, heads, self.rounds, length), dtype="int32")
        rotated = per_head(ops.cast(ops.stop_gradient(x), "float32"), self.rotations)
        rotated = ops.reshape(rotated, (batch, heads, length, self.rounds, self.buckets // 2))
        bucket = ops.argmax(ops.concatenate([rotated, -rotated], axis=-1), axis=-1)
        return ops.transpose(ops.cast(bucket, "int32"), (0, 1, 3, 2))

    def merge(self, groups: list[Groups], outputs: list[Tensor], masses: list[Tensor]) -> Tensor:
        return self._sorted.merge(groups[0], outputs[0], masses[0])

    def shares(self, groups: list[Groups], masses: list[Tensor]) -> list[Tensor | None]:
        return [self._sorted.shares(groups[0], masses[0])]

    @property
    def _sorted(self) -> SortedBuckets:
        return SortedBuckets(self.size, self.buckets, self.rounds, self.causal)
