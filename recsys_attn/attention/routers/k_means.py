"""Groups of tokens around learned centroids."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from recsys_attn.attention.core.head_layout import per_head, swap_heads
from recsys_attn.attention.routers.base import ROUTERS, Router
from recsys_attn.attention.routers.group_layout import looked_up, one_size, sum_tokens, take_tokens
from recsys_attn.attention.routers.groups import Groups
from recsys_attn.attention.routers.sorted_buckets import SortedBuckets
from recsys_attn.attention.weightings.softmax import NEVER
from recsys_attn.checks import require_bool, require_positive, require_share
from recsys_attn.tensors import Shape, Tensor

_EPSILON = 1e-6


@ROUTERS.register("k_means")
class KMeans(Router):
    """Groups the queries and the keys that are nearest to a centroid.

    Queries and keys are normalised by a layer normalisation without weights; the `window` queries
    and the `window` keys most similar to a centroid are its cluster, in the order of their
    positions. The output of a query in several clusters is the mean, and of a query in none zero.
    In training the centroids are moving averages of their nearest tokens:

    `centroid <- decay * centroid + (1 - decay) * mean(queries and keys nearest to centroid)`

    With `causal` queries and keys have one projection, and a token attends the last `window` tokens
    up to itself with the same nearest centroid. Later tokens change nothing.
    (In the paper the most similar tokens of the whole sequence are a cluster, so later ones push
    earlier ones out.)

    Padding displaces no token. One cluster with a window as wide as the sequence is `Dense`. The
    choice has no gradient.

    In `Lookup`, a query finds the keys of the cluster with the nearest centroid, and such queries
    move the centroids too.

    Source: Roy et al., "Efficient Content-Based Sparse Attention with Routing Transformers",
    TACL 2021, arXiv 2003.05997. There attention uses the normalised queries and keys too, and the
    sum instead of the mean, so that the step grows with the batch.

    Args:
        clusters: Number of centroids per head; the square root of S is a good choice.
        window: Number of queries and of keys of a cluster; S / clusters is a good choice. Raise it
            if many events are in no cluster.
        decay: Decay of the moving averages.
        causal: Whether tokens attend earlier ones only. Defaults to False.

    Example:

    >>> import keras
    >>> from recsys_attn.attention.mechanisms import Routed
    >>> from recsys_attn.attention.routers import KMeans
    >>> events = keras.random.normal((2, 1000, 4, 8))
    >>> output, _ = Routed(KMeans(clusters=32, window=32))(events, events, events)
    >>> tuple(output.shape)
    (2, 1000, 4, 8)
    """

    content_based = True

    def __init__(
        self,
        clusters: int,
        window: int,
        decay: float = 0.999,
        causal: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_bool("causal", causal)
        require_positive("clusters", clusters)
        require_positive("window", window)
        require_share("decay", decay)
        self.clusters = clusters
        self.window = window
        self.decay = decay
        self.causal = causal
        self.shares_query_and_key = causal
        if causal:
            self.default_score = "shared_dot"

    def build(self, query_shape: Shape, key_shape: Shape, value_shape: Shape) -> None:
        heads, size = one_size(query_shape, key_shape, "KMeans")
        self.centroids = self.add_weight(
            shape=(heads, self.clusters, size),
            initializer=keras.initializers.RandomNormal(stddev=1.0),  # of the length of the tokens
            trainable=False,
            dtype="float32",
            autocast=False,
            name="centroids",
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
        if self.causal:
            return [self._causal_groups(query, key, value, key_mask, training)]
        tokens = _with_mask(query, query_mask) + _with_mask(key, key_mask)
        affinities = self._affinities(tokens)
        (rows, row_counts), (columns, column_counts) = (
            self._members(affinity, mask)
            for affinity, (_, mask) in zip(affinities, tokens, strict=True)
        )
        if training:
            self._follow(affinities, tokens)
        return [
            Groups(
                self._taken(query, rows),
                self._taken(key, columns),
                self._taken(value, columns),
                query_positions=_clusters_first(rows),
                key_positions=_clusters_first(columns),
                allowed=_clusters_first(column_counts)[:, :, None, :],
                way_back=(rows, row_counts, ops.shape(query)[1]),
            )
        ]

    def _causal_groups(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_mask: Tensor | None,
        training: bool | None,
    ) -> Groups:
        tokens = _with_mask(key, key_mask)
        affinities = self._affinities(tokens)
        nearest = ops.cast(ops.argmax(affinities[0], axis=-1), "int32")  # (B, N, S)
        nearest = ops.where(tokens[0][1][:, None], nearest, self.clusters)
        if training:
            self._follow(affinities, tokens)
        return self._sorted.group(query, key, value, nearest[:, :, None])

    @property
    def _sorted(self) -> SortedBuckets:
        return SortedBuckets(self.window, self.clusters, causal=True)

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
        tokens = _with_mask(query, query_mask) + _with_mask(key, key_mask)
        affinities = self._affinities(tokens)
        members, counts = self._members(affinities[1], tokens[1][1])
        nearest = ops.cast(ops.argmax(affinities[0], axis=-1), "int32")  # (B, N, T)
        if training:
            self._follow(affinities, tokens)
        index = ops.where(counts, members, -1)
        index = ops.take_along_axis(index, nearest[..., None], axis=2)
        return looked_up(query, key, value, index, query_positions, key_positions)

    def _affinities(self, tokens: list[tuple[Tensor, Tensor]]) -> list[Tensor]:
        """Returns the similarity of tokens and centroids, for both sides: (B, N, S, C)."""
        directions = _unit(ops.convert_to_tensor(self.centroids))
        return [per_head(x, ops.transpose(directions, (0, 2, 1))) for x, _ in tokens]

    def _members(self, affinity: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the nearest tokens of each centroid (B, N, C, window) by position, and their
        mask."""
        affinity = ops.where(mask[:, None, :, None], affinity, NEVER)
        affinity = ops.transpose(affinity, (0, 1, 3, 2))
        length, window = ops.shape(affinity)[-1], self.window
        if isinstance(length, int):
            window = min(window, length)
        else:  # unknown length: all tokens, then indices beyond the sequence
            missing = ops.maximum(window - length, 0)
            affinity = ops.pad(affinity, [(0, 0), (0, 0), (0, 0), (0, missing)], "constant", NEVER)
        chosen = ops.sort(ops.cast(ops.top_k(affinity, window)[1], "int32"), axis=-1)
        positions = ops.minimum(chosen, length - 1)
        batch, heads = ops.shape(chosen)[:2]
        counts = ops.broadcast_to(mask[:, :, None], (*ops.shape(mask), heads))
        counts = take_tokens(counts, _tokens(positions))
        counts = ops.reshape(counts, (batch, self.clusters, window, heads))
        counts = ops.transpose(counts, (0, 3, 1, 2))
        return positions, ops.logical_and(counts, chosen < length)

    def _taken(self, x: Tensor, positions: Tensor) -> Tensor:
        """(B, S, N, H) -> (B * C, window, N, H)."""
        batch, _, clusters, window = ops.shape(positions)
        tokens = take_tokens(x, _tokens(positions))
        return ops.reshape(tokens, (batch * clusters, window, *x.shape[2:]))

    def _follow(self, affinities: list[Tensor], tokens: list[tuple[Tensor, Tensor]]) -> None:
        """Moves the centroids towards their nearest tokens."""
        total, count = 0.0, 0.0
        for affinity, (x, mask) in zip(affinities, tokens, strict=True):
            nearest = ops.one_hot(ops.argmax(affinity, axis=-1), self.clusters, dtype="float32")
            nearest = nearest * ops.cast(mask, "float32")[:, None, :, None]
            nearest = _heads_first(nearest, (1, 3, 0, 2))
            total += ops.matmul(nearest, ops.transpose(_heads_first(x, (2, 3, 0, 1)), (0, 2, 1)))
            count += ops.sum(nearest, axis=-1, keepdims=True)
        mean = total / ops.maximum(count, 1.0)
        centroids = ops.convert_to_tensor(self.centroids)
        moved = self.decay * centroids + (1 - self.decay) * mean
        self.centroids.assign(ops.where(count > 0, moved, centroids))

    def merge(self, groups: list[Groups], outputs: list[Tensor], masses: list[Tensor]) -> Tensor:
        if self.causal:
            return self._sorted.merge(groups[0], outputs[0], masses[0])
        rows, counts, length = groups[0].way_back
        positions = _tokens(rows)
        counts = ops.cast(_tokens(counts), "float32")[..., None]
        output = ops.reshape(outputs[0], (*ops.shape(positions), outputs[0].shape[-1]))
        total = sum_tokens(counts * ops.cast(output, "float32"), positions, length)
        return total / ops.maximum(sum_tokens(counts, positions, length), 1.0)

    def shares(self, groups: list[Groups], masses: list[Tensor]) -> list[Tensor | None]:
        if self.causal:
            return [self._sorted.shares(groups[0], masses[0])]
        rows, counts, length = groups[0].way_back
        positions = _tokens(rows)
        counts_of_tokens = ops.cast(_tokens(counts), "float32")[..., None]
        number = take_tokens(
            ops.maximum(sum_tokens(counts_of_tokens, positions, length), 1.0), positions
        )
        share = ops.reshape(counts_of_tokens / number, ops.shape(positions))
        batch, heads, clusters, window = ops.shape(rows)
        share = ops.reshape(share, (batch * clusters, window, heads))
        return [ops.transpose(share, (0, 2, 1))]


def _with_mask(x: Tensor, mask: Tensor | None) -> list[tuple[Tensor, Tensor]]:
    """Returns the normalised tokens of a side, and their mask."""
    mask = ops.ones(ops.shape(x)[:2], "bool") if mask is None else mask
    return [(_normalised(x), mask)]


def _normalised(x: Tensor) -> Tensor:
    """Layer normalisation without weights and without gradient."""
    x = ops.cast(ops.stop_gradient(x), "float32")
    x = x - ops.mean(x, axis=-1, keepdims=True)
    return x * ops.rsqrt(ops.mean(ops.square(x), axis=-1, keepdims=True) + _EPSILON)


def _unit(x: Tensor) -> Tensor:
    return x * ops.rsqrt(ops.sum(ops.square(x), axis=-1, keepdims=True) + _EPSILON)


def _tokens(members: Tensor) -> Tensor:
    """(B, N, C, window) -> (B, C * window, N)."""
    batch, heads, clusters, window = ops.shape(members)
    members = ops.transpose(members, (0, 2, 3, 1))
    return ops.reshape(members, (batch, clusters * window, heads))


def _clusters_first(members: Tensor) -> Tensor:
    """(B, N, C, window) -> (B * C, N, window)."""
    batch, heads, clusters, window = ops.shape(members)
    return ops.reshape(swap_heads(members), (batch * clusters, heads, window))


def _heads_first(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Transposed to (N, H or C, B, S), as (N, H or C, B * S)."""
    x = ops.transpose(x, axes)
    first, second, batch, length = ops.shape(x)
    return ops.reshape(x, (first, second, batch * length))
