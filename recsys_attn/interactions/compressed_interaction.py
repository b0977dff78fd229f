"""The compressed interaction network of xDeepFM."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from recsys_attn.blocks import activations
from recsys_attn.checks import require_sizes
from recsys_attn.layer import Layer
from recsys_attn.tensors import Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class CompressedInteraction(Layer):
    """Products of whole field vectors, one order higher with each layer (CIN).

    `x^k_h = activation(sum_ij W^k_hij (x^{k-1}_i * x^0_j))` for each of the `H_k` rows h, with
    `x^0` the fields; the output has `sum_e x^k_he` of all rows of all layers.

    Source: Lian et al., "xDeepFM: Combining Explicit and Implicit Feature Interactions for
    Recommender Systems", KDD 2018, arXiv 1803.05170, equations 6 to 8. All rows of a layer go on
    and into the output; the authors' code by default splits them in halves.

    Args:
        units: Numbers of rows `H_1, H_2, ...`. The cost grows with `H_{k-1} F E H_k`.
        activation: Of each layer. Defaults to `"linear"`, the best one in the paper.

    Call arguments:
        inputs: Fields (..., F, E); a missing one is zeros.

    Returns:
        (..., H_1 + H_2 + ...).

    Example:

    >>> import keras
    >>> from recsys_attn.interactions import CompressedInteraction
    >>> tuple(CompressedInteraction((8, 6))(keras.random.normal((2, 3, 5, 4))).shape)
    (2, 3, 14)
    """

    def __init__(
        self, units: Sequence[int] = (128, 128), activation: Any = "linear", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.units = require_sizes("units", units)
        if not self.units:
            raise ValueError("`units` must have the size of at least one layer. Received: units=()")
        self.activation = activation
        self._activation = activations.function("activation", activation)

    def build(self, input_shape: Shape) -> None:
        fields = input_shape[-2]
        if fields is None:
            raise ValueError(
                "The number of fields must be known when the layer is built. Received: "
                f"inputs.shape={tuple(input_shape)}"
            )
        rows = [fields, *self.units]
        self.kernels = [
            self.add_weight(
                # Products with x^0 come after those with the kernel, so that no array has all
                # pairs of rows: the columns are (h, j).
                shape=(before, after * fields),
                initializer=keras.initializers.RandomNormal(stddev=(before * fields) ** -0.5),
                name=f"kernel_{index}",
            )
            for index, (before, after) in enumerate(itertools.pairwise(rows))
        ]

    def call(self, inputs: Tensor) -> Tensor:
        fields = ops.swapaxes(inputs, -1, -2)  # (..., E, F)
        leading, count = ops.shape(fields)[:-1], inputs.shape[-2]
        x, outputs = fields, []
        for kernel, units in zip(self.kernels, self.units, strict=True):
            mixed = ops.reshape(ops.matmul(x, kernel), (*leading, units, count))
            x = self._activation(ops.sum(mixed * fields[..., None, :], axis=-1))  # (..., E, H)
            outputs.append(ops.sum(x, axis=-2))
        return ops.concatenate(outputs, axis=-1)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (*input_shape[:-2], sum(self.units))
