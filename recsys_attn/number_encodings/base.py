"""Encodings of numbers, from values to vectors, and those that are sums of functions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np
from keras import ops
from numpy.typing import ArrayLike

from recsys_attn.schema import Numeric
from recsys_attn.tensors import Tensor

# Deviation of a new vector of a number, relative to that of a new row of a table.
INITIAL_SCALE = 1.0
AddWeight = Callable[..., Any]
Draw = Callable[..., Tensor]


class NumberEncoding(ABC):
    """The vectors of F numbers of one encoding, side and width E.

    A missing number has zeros. Except in `"linear"`, the mean of a feature has not, so the two
    differ.

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


class Basis(NumberEncoding):
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
        name = f"{prefix}_{self.label}_vectors_{width}"
        self.weights["vectors"] = add_weight(shape, scaled, name=name)

    @property
    def label(self) -> str:
        """The part of the encoding in the names of its weights."""
        return f"{self.name}_{self.features[0].bins}"

    def __call__(self, values: Tensor, present: Tensor) -> Tensor:
        fields = len(self.names)
        leading = ops.shape(values)[:-1]
        # One product of matrices for each feature: `einsum` would move the functions, too.
        values = ops.transpose(ops.reshape(values, (-1, fields)))
        functions = ops.concatenate(self.functions(values), axis=-1)
        vectors = ops.transpose(ops.matmul(functions, self.weights["vectors"]), (1, 0, 2))
        vectors = ops.reshape(vectors, (*leading, fields, vectors.shape[-1]))
        return vectors * ops.cast(present, vectors.dtype)[..., None]

    def _per_feature(self, numbers: Sequence[ArrayLike], rest: float) -> Tensor:
        """Returns the numbers of each feature `(F, 1, bins)`, and `rest` after the last."""
        padded = np.full((len(self.names), self.features[0].bins), rest, "float32")
        for row, of_feature in zip(padded, numbers, strict=True):
            row[: np.size(of_feature)] = of_feature
        return ops.convert_to_tensor(padded[:, None])

    def boundaries(self, feature: Numeric) -> tuple[float, ...]:
        """Returns the fitted boundaries, or those of standard normal values."""
        if feature.boundaries is not None:
            return feature.boundaries
        normal = NormalDist()
        return tuple(normal.inv_cdf(min(max(s, 0.001), 0.999)) for s in self.shares(feature.bins))
