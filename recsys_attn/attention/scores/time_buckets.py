"""HSTU's bias by the time between two events."""

from __future__ import annotations

from typing import Any

from keras import ops

from recsys_attn.attention.core.head_layout import head_sizes
from recsys_attn.attention.scores.base import SCORES, Score
from recsys_attn.attention.scores.position_tables import distances, spread
from recsys_attn.backend.head_tables import read
from recsys_attn.checks import require_bool, require_number, require_positive
from recsys_attn.initializers import blockwise
from recsys_attn.tensors import Shape, Tensor


def buckets_of_times(times: Tensor, num_buckets: int, step: float) -> Tensor:
    """Returns `floor(log(max(|t|, 1)) / step)`, at most the last bucket: int32 of the same shape.

    Args:
        times: Integers, such as seconds between two events.
        num_buckets: Number of buckets.
        step: Width of a bucket in the logarithm.
    """
    logarithm = ops.log(ops.cast(ops.maximum(ops.abs(times), 1), "float32"))
    return ops.minimum(ops.cast(ops.floor(logarithm / step), "int32"), num_buckets - 1)


@SCORES.register("time_buckets")
class TimeBuckets(Score):
    """`score = table[floor(log(max(|t_i - t_j|, 1)) / step)]`, with a table of each head.

    The positions are times: call the layer with `query_positions` in seconds, for example. So
    buckets of near times are narrow, and those of far ones wide. A pattern counts the places of the
    events, whatever their times.

    The paper adds a bias by place too: `Dot() + TimeBuckets() + RelativeBuckets()`.

    Source: Zhai et al., "Actions Speak Louder than Words: Trillion-Parameter Sequential
    Transducers for Generative Recommendations" (HSTU), ICML 2024, arXiv 2402.17152. The heads of
    the authors' code share one table.

    Args:
        num_buckets: Number of buckets; the last one holds all longer times. Defaults to 128 as in
            the authors' code.
        step: Width of a bucket in the logarithm of the time. Defaults to 0.301 as in the authors'
            code: with 128 buckets far more than all times; with 1.0, 20 buckets reach 15 years of
            seconds.
        next_event: Whether the time of a query is that of the event after it, and 0 for the last
            one, as in HSTU: with times before the request, the time of the event to predict. For
            the mechanism `Dense` over one whole sequence. Defaults to False.

    Call arguments:
        query, key, allowed: See `Score`.
        query_positions, key_positions: Times, integers that broadcast to (B, N, T) and (B, N, S).

    Returns:
        Logits (B, N, T, S).

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from recsys_attn.attention import Dense, MultiHeadAttention
    >>> from recsys_attn.attention.scores import Dot, TimeBuckets
    >>> layer = MultiHeadAttention(2, 4, Dense(Dot(scale=True) + TimeBuckets(20, step=1.0)))
    >>> times = np.array([[0, 60, 3600], [5, 7, 86400]])
    >>> tuple(layer(keras.random.normal((2, 3, 8)), query_positions=times).shape)
    (2, 3, 8)
    """

    positional = True
    uses_times = True
    uses_query = False
    uses_key = False

    def __init__(
        self,
        num_buckets: int = 128,
        step: float = 0.301,
        next_event: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_positive("num_buckets", num_buckets)
        require_number("step", step, above=0)
        self.num_buckets = num_buckets
        require_bool("next_event", next_event)
        self.step = step
        self.next_event = next_event
        self.needs_every_pair = next_event

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        heads, _, _ = head_sizes(query_shape, key_shape)
        # In float32: the gradient of a bucket is a sum over many pairs.
        self.table = self.add_weight(
            shape=(heads, self.num_buckets),
            initializer=blockwise(heads, axis=0, initializer="random_normal"),
            name="table",
            autocast=False,
        )

    def call(
        self,
        query: Tensor,
        key: Tensor,
        allowed: Tensor | None = None,
        query_positions: Tensor | None = None,
        key_positions: Tensor | None = None,
    ) -> Tensor:
        if self.next_event:
            query_positions = _next(query, key, query_positions)
        apart = distances(query, key, query_positions, key_positions)
        buckets = buckets_of_times(apart, self.num_buckets, self.step)
        logits = ops.cast(read(self.table, buckets), self.compute_dtype)
        return spread(logits, query, key)


def _next(query: Tensor, key: Tensor, times: Tensor | None) -> Tensor:
    """Returns the time of the event after each query; 0 after the last one."""
    if times is None or query.shape[1] != key.shape[1]:
        raise ValueError(
            "`next_event` needs the times of one whole sequence, whose events are queries and "
            f"keys. Received: {'no positions' if times is None else 'positions'}, "
            f"query.shape={tuple(query.shape)}, key.shape={tuple(key.shape)}"
        )
    return ops.pad(times[..., 1:], [(0, 0)] * (len(times.shape) - 1) + [(0, 1)])
