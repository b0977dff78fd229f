"""TiSASRec's score of query and time interval."""

from __future__ import annotations

from typing import Any

from keras import ops

from recsys_attn.attention.core.head_layout import head_sizes, per_head
from recsys_attn.attention.scores.base import SCORES, Score
from recsys_attn.attention.scores.position_tables import distances, read_last, spread
from recsys_attn.checks import require_bool, require_positive
from recsys_attn.initializers import blockwise
from recsys_attn.tensors import Shape, Tensor

_FAR = 2**31 - 1


def intervals(
    query: Tensor,
    key: Tensor,
    allowed: Tensor | None,
    query_positions: Tensor | None,
    key_positions: Tensor | None,
    longest: int,
) -> Tensor:
    """Returns the interval of each pair in units of the user's shortest one, int32.

    Args:
        query, key, allowed, query_positions, key_positions: See `TimeIntervals`.
        longest: Longer intervals count as it.

    Returns:
        (B or 1, N or 1, T, S).
    """
    apart = ops.abs(distances(query, key, query_positions, key_positions))
    counted = apart > 0
    if allowed is not None:
        counted = ops.logical_and(counted, allowed)
    unit = ops.min(ops.where(counted, apart, _FAR), axis=(-2, -1), keepdims=True, initial=_FAR)
    return ops.minimum(apart // unit, longest)


@SCORES.register("time_intervals")
class TimeIntervals(Score):
    """`score = q . K[r]` with `r = min(max_interval, floor(|t_i - t_j| / unit))`; K for each head.

    The unit is the shortest interval, but 0, between two of the user's events, so that the
    intervals of busy and of quiet users are alike. Only `Dense` sees all of them. The positions
    are times: call the layer with `query_positions` in seconds, for example. A pattern counts the
    places of the events, whatever their times.

    The paper's attention is `Dense(Dot(scale=True) + TimeIntervals(k, scale=True), "causal",
    pair_values=TimeIntervalValues(k))` over events with `LearnedPositions`, which are a part of
    keys and values; the paper adds vectors of positions after the projections, and none to queries.

    Source: Li et al., "Time Interval Aware Self-Attention for Sequential Recommendation"
    (TiSASRec), WSDM 2020.

    Args:
        max_interval: Largest interval in units ("k"); longer ones count as it. The paper takes 256
            to 2048, by the data.
        scale: Whether to divide by the square root of the head size.

    Call arguments:
        query, key: See `Score`.
        allowed: As for `Score`; the unit comes from pairs that are allowed.
        query_positions, key_positions: Times, integers that broadcast to (B, N, T) and (B, N, S).

    Returns:
        Logits (B, N, T, S).

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from recsys_attn.attention import Dense, MultiHeadAttention
    >>> from recsys_attn.attention.scores import Dot, TimeIntervals
    >>> score = Dot(scale=True) + TimeIntervals(256, scale=True)
    >>> times = np.array([[0, 60, 3600], [5, 7, 86400]])
    >>> layer = MultiHeadAttention(2, 4, Dense(score, "causal"))
    >>> tuple(layer(keras.random.normal((2, 3, 8)), query_positions=times).shape)
    (2, 3, 8)
    """

    positional = True
    uses_times = True
    needs_every_pair = True  # for the unit
    uses_key = False

    def __init__(self, max_interval: int = 256, scale: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        require_positive("max_interval", max_interval)
        require_bool("scale", scale)
        self.max_interval = max_interval
        self.scale = scale

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        heads, query_size, _ = head_sizes(query_shape, key_shape)
        self.kernel = self.add_weight(
            shape=(heads, query_size, self.max_interval + 1),
            initializer=blockwise(heads, axis=0),
            name="kernel",
        )

    def call(
        self,
        query: Tensor,
        key: Tensor,
        allowed: Tensor | None = None,
        query_positions: Tensor | None = None,
        key_positions: Tensor | None = None,
    ) -> Tensor:
        if self.scale:
            query = query * query.shape[-1] ** -0.5
        positions = query_positions, key_positions
        apart = intervals(query, key, allowed, *positions, longest=self.max_interval)
        return spread(read_last(per_head(query, self.kernel), apart), query, key)
