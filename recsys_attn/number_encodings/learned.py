"""Encodings of numbers by functions that are learned."""

from __future__ import annotations

import math

import keras
import numpy as np
from keras import ops

from recsys_attn.number_encodings.base import AddWeight, Basis, Draw
from recsys_attn.tensors import Tensor

_FREQUENCIES = 0.1  # their first deviation: a wave is some 10 deviations of the values long


class Periodic(Basis):
    """Waves of learned frequencies.

    `b + x v + sum_k cos(2 pi c_k x) V_k + sin(2 pi c_k x) W_k` (Gorishniy et al., 2022, arXiv
    2203.05556, section 3.3, without the ReLU, and with the value).
    """

    name = "periodic"

    @property
    def size(self) -> int:
        return 2 + 2 * self.features[0].bins

    @property
    def mean_square(self) -> float:
        return 2.0 + self.features[0].bins

    def build(self, prefix: str, width: int, draw: Draw, add_weight: AddWeight) -> None:
        super().build(prefix, width, draw, add_weight)
        self.weights["frequencies"] = add_weight(
            (len(self.names), self.features[0].bins),
            keras.initializers.RandomNormal(stddev=_FREQUENCIES),
            name=f"{prefix}_{self.label}_frequencies_{width}",
        )

    def functions(self, values: Tensor) -> list[Tensor]:
        values = values[..., None]
        angles = 2 * math.pi * values * self.weights["frequencies"][:, None]
        return [ops.ones_like(values), values, ops.cos(angles), ops.sin(angles)]


class AutoDis(Basis):
    """A weighted mean of vectors, whose weights are learned functions of the value.

    `sum_k softmax(M leaky_relu(x w))_k V_k` (Guo et al., 2021, arXiv 2012.08986, section 3.2).
    There `M` is a matrix plus a multiple of the identity, over a temperature: here one matrix,
    which starts near the identity.
    """

    name = "autodis"

    @property
    def size(self) -> int:
        return self.features[0].bins

    @property
    def mean_square(self) -> float:
        return 2.0 / self.features[0].bins  # of weights that are not quite equal

    def build(self, prefix: str, width: int, draw: Draw, add_weight: AddWeight) -> None:
        super().build(prefix, width, draw, add_weight)
        fields, bins = len(self.names), self.features[0].bins
        noise = keras.initializers.RandomNormal(stddev=bins**-0.5)

        def near_identity(shape: tuple[int, ...], dtype: str | None = None) -> Tensor:
            return noise(shape, dtype) + ops.cast(np.eye(bins), dtype)

        self.weights["scales"] = add_weight(
            (fields, bins),
            keras.initializers.RandomNormal(stddev=1.0),
            name=f"{prefix}_{self.label}_scales_{width}",
        )
        self.weights["matrices"] = add_weight(
            (fields, bins, bins), near_identity, name=f"{prefix}_{self.label}_matrices_{width}"
        )

    def functions(self, values: Tensor) -> list[Tensor]:
        hidden = ops.leaky_relu(values[..., None] * self.weights["scales"][:, None], 0.01)
        return [ops.softmax(ops.matmul(hidden, self.weights["matrices"]), axis=-1)]
