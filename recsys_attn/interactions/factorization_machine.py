"""Products of all pairs of fields: their sum, as in FM, or each of them."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

from recsys_attn.checks import require_bool
from recsys_attn.layer import Layer
from recsys_attn.tensors import Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class FactorizationMachine(Layer):
    """The sum of the inner products of all pairs of fields.

    `y = sum_{i<j} <v_i, v_j> = 1/2 sum_e ((sum_i v_ie)^2 - sum_i v_ie^2)`, which costs F E and not
    F^2 E. The linear terms of the model are not part of it.

    Source: Rendle, "Factorization Machines", ICDM 2010.

    Call arguments:
        inputs: Fields (..., F, E); a missing one is zeros, which changes no sum.

    Returns:
        (..., 1).

    Example:

    >>> import numpy as np
    >>> from recsys_attn.interactions import FactorizationMachine
    >>> fields = np.array([[[1.0, 2.0], [3.0, 4.0], [0.0, 1.0]]], "float32")
    >>> print(float(FactorizationMachine()(fields)[0, 0]))  # 11 + 2 + 4
    17.0
    """

    def call(self, inputs: Tensor) -> Tensor:
        total = ops.sum(inputs, axis=-2)
        squares = ops.sum(ops.square(inputs), axis=-2)
        return 0.5 * ops.sum(ops.square(total) - squares, axis=-1, keepdims=True)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (*input_shape[:-2], 1)


@keras.saving.register_keras_serializable(package="recsys_attn")
class PairProducts(Layer):
    """The inner product, or the product of each channel, of every pair of fields.

    A linear layer over the inner products is the interaction of FwFM, `sum_{i<j} r_ij <v_i, v_j>`,
    and an MLP over them and the fields is IPNN.

    Sources: Pan et al., "Field-weighted Factorization Machines for Click-Through Rate Prediction in
    Display Advertising", WWW 2018, arXiv 1806.03514; Qu et al., "Product-based Neural Networks for
    User Response Prediction", ICDM 2016, arXiv 1611.00144.

    Args:
        by_channel: False: `<v_i, v_j>`; True: the vectors `v_i * v_j`, as AFM has them.

    Call arguments:
        inputs: Fields (..., F, E), at least two.

    Returns:
        (..., P), or (..., P, E) by channel, with the P = F (F - 1) / 2 pairs (0, 1), (0, 2), ...,
        (1, 2), ....

    Raises:
        ValueError: There are fewer than two fields, or their number is unknown.

    Example:

    >>> import keras
    >>> from recsys_attn.interactions import PairProducts
    >>> tuple(PairProducts()(keras.random.normal((2, 3, 5, 4))).shape)
    (2, 3, 10)
    """

    def __init__(self, by_channel: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        require_bool("by_channel", by_channel)
        self.by_channel = by_channel

    def call(self, inputs: Tensor) -> Tensor:
        first, second = pairs_of(inputs)
        if self.by_channel:
            return first * second
        return ops.sum(first * second, axis=-1)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        pairs = len(pair_places(input_shape)[0])
        return (*input_shape[:-2], pairs, *input_shape[-1:] * self.by_channel)


def pairs_of(fields: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the first and the second field of every pair, (..., P, E) each."""
    first, second = pair_places(fields.shape)
    return ops.take(fields, first, axis=-2), ops.take(fields, second, axis=-2)


def pair_places(shape: Shape) -> tuple[np.ndarray, np.ndarray]:
    """Returns the places of both fields of every pair, for fields of a shape (..., F, E).

    Raises:
        ValueError: There are fewer than two fields, or their number is unknown.
    """
    count = shape[-2]
    if count is None or count < 2:
        raise ValueError(
            "Products of pairs need at least two fields, whose number is known. Received: "
            f"inputs.shape={tuple(shape)}"
        )
    first, second = np.triu_indices(count, k=1)
    return first.astype("int32"), second.astype("int32")
