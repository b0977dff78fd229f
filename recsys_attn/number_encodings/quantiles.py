"""Encodings of numbers by the quantiles of the training rows."""

from __future__ import annotations

import numpy as np
from keras import ops

from recsys_attn.number_encodings.base import Basis
from recsys_attn.tensors import Tensor

_STEEPEST = 1e38  # float32 has no slope between the smallest numbers


class Buckets(Basis):
    """A vector of the feature, the value times a vector, and a vector of its quantile bucket.

    `b + x v + V_k`, for the last bucket `k` that begins at or below the value; values below all
    are in the first.
    """

    name = "buckets"
    mean_square = 3.0

    @staticmethod
    def shares(bins: int) -> tuple[float, ...]:
        return tuple(number / bins for number in range(bins))

    @property
    def size(self) -> int:
        return 2 + self.features[0].bins

    def functions(self, values: Tensor) -> list[Tensor]:
        inner = [self.boundaries(feature)[1:] for feature in self.features]
        begins = [(-np.inf, *numbers) for numbers in inner]
        ends = [(*numbers, np.inf) for numbers in inner]
        values = values[..., None]
        in_bucket = ops.logical_and(
            values >= self._per_feature(begins, np.inf),
            values < self._per_feature(ends, np.inf),
        )
        return [ops.ones_like(values), values, ops.cast(in_bucket, values.dtype)]


class PiecewiseLinear(Basis):
    """A polygon over the quantiles, constant outside of them.

    `b + sum_k r_k(x) V_k`, with the ramp `r_k(x) = clip((x - b_k) / (b_{k+1} - b_k), 0, 1)` of each
    piece (Gorishniy et al., 2022, arXiv 2203.05556, section 3.2). There the first and the last
    piece go on for ever; here a value that is larger than all of training is as the largest.
    """

    name = "piecewise_linear"

    @staticmethod
    def shares(bins: int) -> tuple[float, ...]:
        return tuple(number / bins for number in range(bins + 1))

    @property
    def size(self) -> int:
        return 1 + self.features[0].bins

    @property
    def mean_square(self) -> list[float]:
        pieces = [max(len(self.boundaries(feature)) - 1, 0) for feature in self.features]
        # Of the ramps of n pieces, (n - 1) / 2 are 1 on average, and one has a uniform value.
        return [1 + (n - 1) / 2 + 1 / 3 if n else 1.0 for n in pieces]

    def functions(self, values: Tensor) -> list[Tensor]:
        boundaries = [np.array(self.boundaries(feature)) for feature in self.features]
        begins = [numbers[:-1] for numbers in boundaries]
        slopes = [np.minimum(1 / np.diff(numbers), _STEEPEST) for numbers in boundaries]
        values = values[..., None]
        distances = values - self._per_feature(begins, 0.0)
        ramps = ops.clip(distances * self._per_feature(slopes, 0.0), 0.0, 1.0)
        return [ops.ones_like(values), ramps]
