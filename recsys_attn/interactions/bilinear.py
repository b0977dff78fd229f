"""Bilinear forms: of pairs of fields, as in FiBiNET, and of two vectors, as in FinalMLP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from recsys_attn.checks import require_positive, require_sizes, unknown_name
from recsys_attn.initializers import blockwise
from recsys_attn.interactions.factorization_machine import pair_places
from recsys_attn.layer import Layer
from recsys_attn.tensors import Shape, Tensor

_KINDS = ("all", "each", "interaction")


@keras.saving.register_keras_serializable(package="recsys_attn")
class BilinearInteraction(Layer):
    """The product of every pair of fields, the first of which a matrix maps: `(v_i W) * v_j`.

    The matrix W is one for all pairs, that of the first field i, or that of the pair.

    Source: Huang et al., "FiBiNET: Combining Feature Importance and Bilinear Feature Interaction
    for Click-Through Rate Prediction", RecSys 2019, arXiv 1905.09433, equations 7 to 9.

    Args:
        kind: The matrices: `"all"`: one; `"each"`: F - 1, one for each field but the last;
            `"interaction"`: F (F - 1) / 2, one for each pair. The fewer the examples of a pair, the
            fewer matrices.

    Call arguments:
        inputs: Fields (..., F, E), at least two; a missing one is zeros, and so are its products.

    Returns:
        (..., P, E), with the P = F (F - 1) / 2 pairs (0, 1), (0, 2), ..., (1, 2), ....

    Raises:
        ValueError: `kind` is unknown, there are fewer than two fields, or their number is unknown.

    Example:

    >>> import keras
    >>> from recsys_attn.interactions import BilinearInteraction
    >>> tuple(BilinearInteraction("each")(keras.random.normal((2, 3, 5, 4))).shape)
    (2, 3, 10, 4)
    """

    def __init__(self, kind: str = "interaction", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if kind not in _KINDS:
            raise ValueError(f"`kind` must be a name. {unknown_name(kind, _KINDS)}")
        self.kind = kind

    def build(self, input_shape: Shape) -> None:
        fields, width = input_shape[-2:]
        pairs = len(pair_places(input_shape)[0])
        self.matrices = {"all": 1, "each": (fields or 0) - 1, "interaction": pairs}[self.kind]
        self.kernel = self.add_weight(
            shape=(width, self.matrices * (width or 0)),
            initializer=blockwise(self.matrices, axis=1),
            name="kernel",
        )

    def call(self, inputs: Tensor) -> Tensor:
        first, second = pair_places(inputs.shape)
        if self.kind == "all":
            mapped = ops.matmul(inputs, self.kernel)
        else:
            width = inputs.shape[-1]
            kernel = ops.reshape(self.kernel, (width, self.matrices, width))
            fields = (
                ops.take(inputs, first, axis=-2)
                if self.kind == "interaction"
                else inputs[..., :-1, :]
            )
            mapped = ops.einsum("...ke,ekd->...kd", fields, kernel)
        if self.kind != "interaction":
            mapped = ops.take(mapped, first, axis=-2)
        return mapped * ops.take(inputs, second, axis=-2)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (*input_shape[:-2], len(pair_places(input_shape)[0]), input_shape[-1])


@keras.saving.register_keras_serializable(package="recsys_attn")
class BilinearFusion(Layer):
    """Numbers that are linear in two vectors and in the products of their numbers.

    `y = w_1 . o_1 + w_2 . o_2 + b + sum_h o_1^h W^h o_2^h`, with the vectors in N equal parts o^h.
    The more parts, the fewer weights: D_1 D_2 / N for each output.

    Source: Mao et al., "FinalMLP: An Enhanced Two-Stream MLP Model for CTR Prediction", AAAI 2023,
    arXiv 2304.00902, equations 11 to 14.

    Args:
        sizes: The sizes D_1 and D_2 of the vectors.
        units: Number of outputs, each with weights of its own.
        num_heads: Number of parts N, by which both sizes can be divided.

    Call arguments:
        inputs: Both vectors, one after the other: (..., D_1 + D_2).

    Returns:
        (..., units).

    Raises:
        ValueError: `sizes` are not two, the inputs have another size, or `num_heads` does not
            divide both.

    Example:

    >>> import keras
    >>> from recsys_attn.interactions import BilinearFusion
    >>> tuple(BilinearFusion((6, 4), num_heads=2)(keras.random.normal((3, 10))).shape)
    (3, 1)
    """

    def __init__(
        self, sizes: Sequence[int], units: int = 1, num_heads: int = 1, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.sizes = require_sizes("sizes", sizes)
        require_positive("units", units)
        require_positive("num_heads", num_heads)
        if len(self.sizes) != 2:
            raise ValueError(
                f"`sizes` must be those of two vectors. Received: sizes={list(self.sizes)}"
            )
        if any(size % num_heads for size in self.sizes):
            raise ValueError(
                "`num_heads` must divide the sizes of both vectors. Received: "
                f"num_heads={num_heads}, sizes={list(self.sizes)}"
            )
        self.units = units
        self.num_heads = num_heads
        self.linear = keras.layers.Dense(units, dtype=self.dtype_policy)

    def build(self, input_shape: Shape) -> None:
        if input_shape[-1] != sum(self.sizes):
            raise ValueError(
                f"The last axis of `inputs` must have the sum of `sizes`, {sum(self.sizes)}. "
                f"Received: inputs.shape={tuple(input_shape)}"
            )
        self.linear.build(input_shape)
        first, second = (size // self.num_heads for size in self.sizes)
        self.kernel = self.add_weight(
            shape=(first, self.num_heads * self.units * second),
            # Each output is a sum over the products of all heads.
            initializer=keras.initializers.RandomNormal(stddev=(first * self.sizes[1]) ** -0.5),
            name="kernel",
        )

    def call(self, inputs: Tensor) -> Tensor:
        sizes = [size // self.num_heads for size in self.sizes]
        first, second = (
            ops.reshape(part, (*ops.shape(part)[:-1], self.num_heads, size))
            for part, size in zip(ops.split(inputs, [self.sizes[0]], -1), sizes, strict=True)
        )
        kernel = ops.reshape(self.kernel, (sizes[0], self.num_heads, self.units, sizes[1]))
        mapped = ops.einsum("...ha,ahub->...hub", first, kernel)
        products = ops.sum(mapped * second[..., None, :], axis=(-3, -1))
        return self.linear(inputs) + products

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (*input_shape[:-1], self.units)
