"""Vectors of pairs beside the values, for `Dense`."""

from __future__ import annotations

import math
from typing import Any

from keras import ops

from recsys_attn.attention.core.head_layout import head_sizes, swap_heads
from recsys_attn.attention.scores.time_intervals import intervals
from recsys_attn.checks import require_positive
from recsys_attn.initializers import blockwise
from recsys_attn.layer import Layer
from recsys_attn.registry import Registry
from recsys_attn.tensors import Shape, Tensor


class PairValues(Layer):
    """Values of pairs: `output[t] += sum_s weight[t, s] R[kind[t, s]]`, R for each head.

    The weights of each kind are added up first, `(sum of the weights of kind r) R[r]`, so that no
    tensor has a vector for each pair.

    A subclass implements `kinds`.

    Attributes:
        contract: The promise of each of them, for errors.
        num_kinds: Number of kinds of pairs; R has a vector for each. Known before `build`.
        uses_times: Whether the positions are times. A pattern beside it counts places then.

    Call arguments:
        weights: (B, N, T, S), those that meet the values.
        query: (B, T, N, H).
        key: (B, S, N, H).
        allowed: Booleans that broadcast to (B, N, T, S), or None for all pairs.
        query_positions, key_positions: Integers that broadcast to (B, N, T) and (B, N, S), or None
            for the default ones.

    Returns:
        The term of the output of each head, (B, T, N, V).

    Example:

    >>> import keras
    >>> from recsys_attn.attention import Dense, MultiHeadAttention
    >>> from recsys_attn.attention.mechanisms.pair_values import PairValues
    >>> class LaterOrNot(PairValues):
    ...     num_kinds = 2
    ...     def kinds(self, query, key, allowed, query_positions, key_positions):
    ...         rows = keras.ops.arange(keras.ops.shape(query)[1])
    ...         columns = keras.ops.arange(keras.ops.shape(key)[1])
    ...         return keras.ops.cast(columns > rows[:, None], "int32")[None, None]
    >>> layer = MultiHeadAttention(2, 4, Dense(pair_values=LaterOrNot()))
    >>> tuple(layer(keras.random.normal((2, 5, 8))).shape)
    (2, 5, 8)
    """

    contract = "finite numbers, and nothing of a pair that is not allowed"
    num_kinds: int
    uses_times = False

    def kinds(
        self,
        query: Tensor,
        key: Tensor,
        allowed: Tensor | None,
        query_positions: Tensor | None,
        key_positions: Tensor | None,
    ) -> Tensor:
        """Returns the kind of each pair, 0 ... num_kinds - 1: int32 (B or 1, N or 1, T, S)."""
        raise NotImplementedError(f"{type(self).__name__} must implement `kinds`")

    def build(self, query_shape: Shape, key_shape: Shape, value_shape: Shape) -> None:
        heads, _, _ = head_sizes(query_shape, key_shape)
        self.kernel = self.add_weight(
            shape=(heads, self.num_kinds, value_shape[-1]),
            initializer=blockwise(heads, axis=0),
            name="kernel",
        )

    def call(
        self,
        weights: Tensor,
        query: Tensor,
        key: Tensor,
        allowed: Tensor | None = None,
        query_positions: Tensor | None = None,
        key_positions: Tensor | None = None,
    ) -> Tensor:
        kinds = self.kinds(query, key, allowed, query_positions, key_positions)
        # Of the batch of both, and exact enough for the sum of many pairs.
        weights = ops.add(ops.cast(weights, "float32"), ops.zeros_like(kinds, dtype="float32"))
        leading = ops.shape(weights)[:3]
        rows = math.prod(leading)
        first = ops.reshape(ops.arange(rows, dtype="int32") * self.num_kinds, (*leading, 1))
        sums = ops.segment_sum(
            ops.reshape(weights, (-1,)),
            ops.reshape(first + kinds, (-1,)),
            num_segments=rows * self.num_kinds,
        )
        sums = ops.cast(ops.reshape(sums, (*leading, self.num_kinds)), self.compute_dtype)
        return swap_heads(ops.einsum("bntr,nrv->bntv", sums, self.kernel))


PAIR_VALUES = Registry("values of pairs", "pair_values", PairValues)


@PAIR_VALUES.register("time_intervals")
class TimeIntervalValues(PairValues):
    """TiSASRec's values of time intervals: `output[t] += sum_s weight[t, s] R[r]`.

    The interval r between the events t and s is that of `scores.TimeIntervals`, in units of the
    user's shortest one. The positions are times.

    Source: Li et al., "Time Interval Aware Self-Attention for Sequential Recommendation"
    (TiSASRec), WSDM 2020, equation 4.

    Args:
        max_interval: Largest interval in units; longer ones count as it. Give that of the score.

    Call arguments:
        weights, query, key, allowed, query_positions, key_positions: See `PairValues`.

    Returns:
        (B, T, N, V).

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from recsys_attn.attention import Dense, MultiHeadAttention
    >>> from recsys_attn.attention.mechanisms.pair_values import TimeIntervalValues
    >>> from recsys_attn.attention.scores import Dot, TimeIntervals
    >>> score = Dot(scale=True) + TimeIntervals(256, scale=True)
    >>> mechanism = Dense(score, "causal", pair_values=TimeIntervalValues(256))
    >>> times = np.array([[0, 60, 3600], [5, 7, 86400]])
    >>> layer = MultiHeadAttention(2, 4, mechanism)
    >>> tuple(layer(keras.random.normal((2, 3, 8)), query_positions=times).shape)
    (2, 3, 8)
    """

    uses_times = True

    def __init__(self, max_interval: int = 256, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        require_positive("max_interval", max_interval)
        self.max_interval = max_interval
        self.num_kinds = max_interval + 1

    def kinds(
        self,
        query: Tensor,
        key: Tensor,
        allowed: Tensor | None,
        query_positions: Tensor | None,
        key_positions: Tensor | None,
    ) -> Tensor:
        positions = query_positions, key_positions
        return intervals(query, key, allowed, *positions, longest=self.max_interval)
