"""Encodings of numbers: from values to vectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np
from keras import ops

from recsys_attn.schema import Numeric
from recsys_attn.tensors import Tensor

# Deviation of a new vector of a number, relative to that of a new row of a table.
INITIAL_SCALE = 1.0
_STEEPEST = 1e38  # float32 has no slope between the smallest numbers

AddWeight = Callable[..., Any]
Draw = Callable[..., Tensor]


class NumberEncoding(ABC):
    """The vectors of F numbers of one encoding, side and width E.

    A missing number has zeros. Except in `"linear"`, each feature has a vector that all of its
    values share, so that a missing number differs from the mean, too.

    Args:
        features: The features, with the same encoding and `bins`.

    Raises:
        ValueError: A feature has more boundaries than `shares`.
    """

    name: ClassVar[str]

    def __init__(self, features: Sequence[Numeric]) -> None:
        most = len(self.shares(features[0].bins))
        for feature in features:
            if most and len(feature.boundaries or ()) > most:
                raise ValueError(
                    f"Feature {feature.name!r}: with encoding={self.name!r} and "
                    f"bins={feature.bins}, `boundaries` must have at most {most} numbers. "
                    f"Received: {len(feature.boundaries or ())}. Give fewer, or raise `bins`"
                )
        self.features = tuple(features)
        self.names = tuple(feature.name for feature in features)
        self.weights: dict[str, Any] = {}

    @staticmethod
    def shares(bins: int) -> tuple[float, ...]:
        """Returns the shares of the training rows below each of the boundaries."""
        return ()

    @abstractmethod
    def build(self, prefix: str, width: int, draw: Draw, add_weight: AddWeight) -> None:
        """Makes the weights, each with the features as its first axis.

        Args:
            prefix: Beginning of their names.
            width: Embedding width.
            draw: Initializer of vectors.
            add_weight: Makes a weight of a layer: `add_weight(shape, initializer, name=name)`.
        """

    @abstractmethod
    def __call__(self, values: Tensor, present: Tensor) -> Tensor:
        """Returns the vectors.

        Args:
            values: Transformed numbers `(..., F)`, 0 where missing.
            present: False where missing `(..., F)`.

        Returns:
            float32 `(..., F, E)`.
        """

    def take(self, others: Mapping[str, NumberEncoding]) -> None:
        """Copies the weights of the features from encodings that have them too, by name."""
        for key, weight in self.weights.items():
            rows = []
            for name in self.names:
                other = others[name]
                rows.append(ops.convert_to_numpy(other.weights[key])[other.names.index(name)])
            weight.assign(np.stack(rows))


class Linear(NumberEncoding):
    """The value times a vector (AutoInt, Song et al., 2019, arXiv 1810.11921, section 4.2)."""

    name = "linear"

    def build(self, prefix: str, width: int, draw: Draw, add_weight: AddWeight) -> None:
        shape = (len(self.names), width)
        self.weights["vectors"] = add_weight(shape, draw, name=f"{prefix}_vectors_{width}")

    def __call__(self, values: Tensor, present: Tensor) -> Tensor:
        return values[..., None] * self.weights["vectors"]


class _Basis(NumberEncoding):
    """The sum of K functions of the value, each times a vector: `sum_k f_k(x) V_k`."""

    @property
    @abstractmethod
    def size(self) -> int:
        """K, the number of functions."""

    @property
    @abstractmethod
    def mean_square(self) -> Any:
        """The mean of `sum_k f_k(x)^2` over training rows, one number or one for each feature."""

    @abstractmethod
    def functions(self, values: Tensor) -> list[Tensor]:
        """Returns the functions of the values `(F, N)`, as parts of `(F, N, K)`."""

    def build(self, prefix: str, width: int, draw: Draw, add_weight: AddWeight) -> None:
        scale = INITIAL_SCALE / np.sqrt(np.reshape(self.mean_square, (-1, 1, 1)))

        def scaled(shape: Any, dtype: Any = None) -> Tensor:
            return draw(shape, dtype) * ops.cast(scale, dtype)

        shape = (len(self.names), self.size, width)
        name = f"{prefix}_{self.name}_{self.features[0].bins}_vectors_{width}"
        self.weights["vectors"] = add_weight(shape, scaled, name=name)

    def __call__(self, values: Tensor, present: Tensor) -> Tensor:
        fields = len(self.names)
        leading = ops.shape(values)[:-1]
        # One product of matrices for each feature: `einsum` would move the functions, too.
        values = ops.transpose(ops.reshape(values, (-1, fields)))
        functions = ops.concatenate(self.functions(values), axis=-1)
        vectors = ops.transpose(ops.matmul(functions, self.weights["vectors"]), (1, 0, 2))
        vectors = ops.reshape(vectors, (*leading, fields, vectors.shape[-1]))
        return vectors * ops.cast(present, vectors.dtype)[..., None]

    def _per_feature(self, numbers: Sequence[Sequence[float]], rest: float) -> Tensor:
        """Returns the numbers of each feature `(F, 1, bins)`, and `rest` after the last."""
        padded = np.full((len(self.names), self.features[0].bins), rest, "float32")
        for row, of_feature in zip(padded, numbers, strict=True):
            row[: len(of_feature)] = of_feature
        return ops.convert_to_tensor(padded[:, None])

    def boundaries(self, feature: Numeric) -> tuple[float, ...]:
        """Returns the fitted boundaries, or those of standard normal values."""
        if feature.boundaries is not None:
            return feature.boundaries
        normal = NormalDist()
        return tuple(normal.inv_cdf(min(max(s, 0.001), 0.999)) for s in self.shares(feature.bins))


class Buckets(_Basis):
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


class PiecewiseLinear(_Basis):
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


ENCODINGS: dict[str, type[NumberEncoding]] = {
    encoding.name: encoding for encoding in (Linear, Buckets, PiecewiseLinear)
}


def number_groups(features: Sequence[Numeric]) -> list[list[Numeric]]:
    """Returns the features that one encoding computes together, with `"linear"` first."""
    groups: dict[tuple[str, int], list[Numeric]] = {}
    for feature in features:
        bins = feature.bins if feature.encoding != Linear.name else 0
        groups.setdefault((feature.encoding, bins), []).append(feature)
    return [groups[key] for key in sorted(groups, key=lambda key: (key[1], key[0]))]


class NumberFields:
    """The fields of all numbers of one side and width, a few operations for each encoding.

    Args:
        features: The features, in the order of `number_groups`.
    """

    def __init__(self, features: Sequence[Numeric]) -> None:
        groups = number_groups(features)
        self.encodings = [ENCODINGS[group[0].encoding](group) for group in groups]

    def build(self, prefix: str, width: int, draw: Callable[[], Draw], add: AddWeight) -> None:
        """Makes the weights, each with an initializer of its own; see `NumberEncoding.build`."""
        for encoding in self.encodings:
            encoding.build(prefix, width, draw(), add)

    def __call__(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Returns float32 vectors `(..., F, E)`, and where numbers `(..., F)` are no NaN."""
        present = ops.logical_not(ops.isnan(values))
        values = ops.where(present, values, 0.0)
        ends = list(accumulate(len(encoding.names) for encoding in self.encodings))[:-1]
        parts = (ops.split(x, ends, axis=-1) if ends else [x] for x in (values, present))
        vectors = [encoding(*part) for encoding, *part in zip(self.encodings, *parts, strict=True)]
        return ops.concatenate(vectors, axis=-2), present

    def take(self, other: NumberFields) -> None:
        """Copies the weights of the features from fields that have them too."""
        theirs = {name: encoding for encoding in other.encodings for name in encoding.names}
        for encoding in self.encodings:
            encoding.take(theirs)
