"""Transformer-XL's score of query and distance."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
from keras import ops

from recsys_attn.attention.core.head_layout import head_sizes, per_head
from recsys_attn.attention.scores.base import SCORES, Score
from recsys_attn.attention.scores.position_tables import distances, read_last, spread
from recsys_attn.checks import require_bool, require_positive
from recsys_attn.initializers import blockwise
from recsys_attn.tensors import Shape, Tensor


@SCORES.register("relative_dot")
class RelativeDot(Score):
    """`score = (q + v) . W R[i - j]` for a query at i and a key at j; W and v for each head.

    `R[d] = [sin(d f_1), sin(d f_2), ..., cos(d f_1), cos(d f_2), ...]` with the frequencies
    `f = 10000^(-2 m / units)`. Distances are clipped to -max_distance ... max_distance.

    Transformer-XL's and XLNet's attention is
    `Dot(scale=True, query_bias=True) + RelativeDot(max_distance, scale=True)`.

    Sources: Dai et al., "Transformer-XL: Attentive Language Models Beyond a Fixed-Length
    Context", ACL 2019, arXiv 1901.02860; in both directions: Yang et al., "XLNet: Generalized
    Autoregressive Pretraining for Language Understanding", NeurIPS 2019, arXiv 1906.08237.

    Args:
        max_distance: Largest distance ("clamp_len"). With explicit positions, time and memory grow
            with it.
        scale: Whether to divide by the square root of the head size.
        units: Size of R, an even number; in the papers the width of the model. Defaults to the head
            size, rounded up to an even number.

    Call arguments:
        query, key, allowed, query_positions, key_positions: See `Score`.

    Returns:
        Logits (B, N, T, S).

    Example:

    >>> import keras
    >>> from recsys_attn.attention.scores import Dot, RelativeDot
    >>> segment = keras.random.normal((2, 3, 1, 8))
    >>> memory_and_segment = keras.random.normal((2, 5, 1, 8))
    >>> score = Dot(scale=True, query_bias=True) + RelativeDot(64, scale=True)
    >>> tuple(score(segment, memory_and_segment).shape)
    (2, 1, 3, 5)
    """

    positional = True
    uses_key = False

    def __init__(
        self, max_distance: int, scale: bool = False, units: int | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        require_positive("max_distance", max_distance)
        require_bool("scale", scale)
        if units is not None:
            require_positive("units", units)
            if units % 2:
                raise ValueError(
                    f"`units` must be even, half sines and half cosines. Received: units={units}"
                )
        self.max_distance = max_distance
        self.scale = scale
        self.units = units
        self._lender: Any = None

    def share_bias(self, other: RelativeDot) -> None:
        """Uses the v of another score, which must be built first."""
        self._lender = weakref.ref(other)  # Keras would track a strong reference as a part

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        heads, query_size, _ = head_sizes(query_shape, key_shape)
        units = self.units or query_size + query_size % 2
        self.kernel = self.add_weight(
            shape=(heads, units, query_size), initializer=blockwise(heads, axis=0), name="kernel"
        )
        if self._lender is None:
            self.position_bias = self.add_weight(
                shape=(heads, query_size), initializer="zeros", name="position_bias"
            )
        self._waves = _sinusoids(np.arange(-self.max_distance, self.max_distance + 1), units)

    def call(
        self,
        query: Tensor,
        key: Tensor,
        allowed: Tensor | None = None,
        query_positions: Tensor | None = None,
        key_positions: Tensor | None = None,
    ) -> Tensor:
        query = query + (self if self._lender is None else self._lender()).position_bias
        if self.scale:
            query = query * query.shape[-1] ** -0.5
        if query_positions is None and key_positions is None:
            return spread(self._of_neighbours(query, key), query, key)
        distance = distances(query, key, query_positions, key_positions)
        reach = self.max_distance
        products = self._products(query, ops.arange(-reach, reach + 1))
        index = ops.clip(distance, -reach, reach) + reach
        return spread(read_last(products, index), query, key)

    def _of_neighbours(self, query: Tensor, key: Tensor) -> Tensor:
        """Returns the logits at default positions without a gather, which is several times
        slower."""
        queries, keys = ops.shape(query)[1], ops.shape(key)[1]
        return _skewed(self._products(query, keys - ops.arange(keys + queries + 1)))

    def _products(self, query: Tensor, distance: Tensor) -> Tensor:
        """(B, T, N, H), (R,) -> (B, N, T, R): `q . W R[d]`."""
        reach = self.max_distance
        waves = ops.take(self._waves, ops.clip(distance, -reach, reach) + reach, axis=0)
        places = ops.matmul(ops.cast(waves, self.compute_dtype), self.kernel)  # (N, R, H)
        return per_head(query, ops.swapaxes(places, 1, 2))


def _skewed(x: Tensor) -> Tensor:
    """(B, N, T, S + T + 1) -> (B, N, T, S), row t from entry T - t on.

    In rows that are one entry shorter, each row starts one entry further to the left.
    """
    batch, heads, rows, width = ops.shape(x)
    flat = ops.reshape(x, (batch, heads, rows * width))
    # Not by indexing: its gradient is many times slower on TensorFlow.
    flat = ops.slice(flat, (0, 0, rows), (batch, heads, rows * (width - 1)))
    x = ops.reshape(flat, (batch, heads, rows, width - 1))
    return ops.slice(x, (0, 0, 0, 0), (batch, heads, rows, width - 1 - rows))


def _sinusoids(places: np.ndarray, units: int) -> np.ndarray:
    """Sines, then cosines: (R,) -> (R, units)."""
    frequencies = 10000.0 ** (-np.arange(0, units, 2) / units)
    angles = places[:, None] * frequencies
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=-1).astype("float32")
