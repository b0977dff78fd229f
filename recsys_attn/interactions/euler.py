"""EulerNet's interaction: fields as complex numbers, whose products have learned orders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from recsys_attn.backend.dropout import Dropout
from recsys_attn.blocks.norms import NORMS, ROW_NORMS
from recsys_attn.checks import require_share, require_sizes, unknown_name
from recsys_attn.layer import Layer
from recsys_attn.tensors import Shape, Tensor

_TINY = 1e-8  # of a squared modulus: below it a number counts as 0, whose phase is 0
_LARGEST = 10.0  # of the logarithm of a modulus: far above sensible ones, and finite in float16


@keras.saving.register_keras_serializable(package="recsys_attn")
class EulerInteraction(Layer):
    """Products of complex powers of the fields, `prod_j z_j^alpha_j` with learned orders alpha.

    A field e_j is `z_j = mu_j exp(i e_j)`, channel by channel, with a learned modulus mu_j. By
    Euler's formula a product of powers is a sum of logarithms and of phases. A layer with n vectors
    of orders, the columns of A, makes of `z = r + i p`

    `l = A^T log|z| + b`, `t = A^T arg(z) + c`

    `r' = norm(exp(l) cos(t) + relu(W r + d))`, `p' = norm(exp(l) sin(t) + relu(W p + d))`

    where W, over all fields and channels, is the implicit part, the same for r and p. The modulus
    `exp(l)` is at most `e^10`, about 22,000: `l` above 10 counts as 10, and has no gradient. The
    output is `r + p` of the last layer.

    Source: Tian et al., "EulerNet: Adaptive Feature Interaction Learning via Euler's Formula for
    CTR Prediction", SIGIR 2023, arXiv 2304.10711.

    Args:
        orders: Numbers n of vectors of orders, layer by layer. The implicit part costs
            `F E^2 n`; a few times the number of fields are enough.
        norm: Normalisation of each vector of orders: `"layer"` (the default), `"rms"` or `"none"`.
        dropout: Dropout of the inputs of both parts. Defaults to 0.

    Call arguments:
        inputs: Fields (..., F, E); a missing one is zeros, the number mu_j.

    Returns:
        (..., n, E), with the n of the last layer.

    Raises:
        ValueError: There is no layer, a size is not positive, or the number of fields is unknown.

    Example:

    >>> import keras
    >>> from recsys_attn.interactions import EulerInteraction
    >>> tuple(EulerInteraction((7, 6))(keras.random.normal((2, 3, 5, 4))).shape)
    (2, 3, 6, 4)
    """

    def __init__(
        self,
        orders: Sequence[int] = (52,),
        norm: str = "layer",
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        # `arctan2` is discontinuous at pi: rounding to bfloat16 can change the sign of a phase.
        super().__init__(**{"dtype": "float32", **kwargs})
        self.orders = require_sizes("orders", orders)
        if not self.orders:
            raise ValueError(
                "`orders` must have the size of at least one layer. Received: orders=()"
            )
        if norm not in ROW_NORMS:
            raise ValueError(f"`norm` must be a name. {unknown_name(norm, ROW_NORMS)}")
        require_share("dropout", dropout)
        self.norm = norm
        self.dropout = dropout
        self.layers = [
            _EulerLayer(count, norm, dropout, dtype=self.dtype_policy) for count in self.orders
        ]

    def build(self, input_shape: Shape) -> None:
        fields, width = input_shape[-2:]
        if fields is None or width is None:
            raise ValueError(
                "The number of fields and their width must be known when the layer is built. "
                f"Received: inputs.shape={tuple(input_shape)}"
            )
        self.modulus = self.add_weight(shape=(fields, 1), initializer="ones", name="modulus")
        for layer in self.layers:
            layer.build((None, fields, width))
            fields = layer.count

    def call(self, inputs: Tensor) -> Tensor:
        real, imaginary = self.modulus * ops.cos(inputs), self.modulus * ops.sin(inputs)
        for layer in self.layers:
            real, imaginary = layer(real, imaginary)
        return real + imaginary

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (*input_shape[:-2], self.orders[-1], input_shape[-1])


class _EulerLayer(Layer):
    """From F complex numbers of E channels to `count`, as real and imaginary parts (..., F, E)."""

    def __init__(self, count: int, norm: str, dropout: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.count = count
        self.norms = [NORMS.get(norm, dtype=self.dtype_policy) for _ in ("real", "imaginary")]
        self.dropout = Dropout(dropout, dtype=self.dtype_policy)

    def build(self, input_shape: Shape) -> None:
        fields, width = (int(size or 0) for size in input_shape[-2:])
        same = fields == self.count
        self.orders = self.add_weight(
            shape=(fields, self.count),
            initializer="identity" if same else _one_field_each,
            name="orders",
        )
        small = keras.initializers.RandomNormal(stddev=0.01)
        self.log_modulus_bias, self.phase_bias = (
            self.add_weight(shape=(self.count, width), initializer=small.clone(), name=name)
            for name in ("log_modulus_bias", "phase_bias")
        )
        self.implicit = keras.layers.Dense(self.count * width, "relu", dtype=self.dtype_policy)
        self.implicit.build((None, fields * width))
        for norm in self.norms:
            norm.build((None, self.count, width))

    def call(self, real: Tensor, imaginary: Tensor) -> tuple[Tensor, Tensor]:
        log_modulus, phase = (self._ordered(part) for part in polar(real, imaginary))
        modulus = ops.exp(ops.minimum(log_modulus + self.log_modulus_bias, _LARGEST))
        phase = phase + self.phase_bias
        explicit = modulus * ops.cos(phase), modulus * ops.sin(phase)
        real, imaginary = (
            norm(product + self._implicit(part))
            for norm, product, part in zip(self.norms, explicit, (real, imaginary), strict=True)
        )
        return real, imaginary

    def _ordered(self, logarithm: Tensor) -> Tensor:
        logarithm = self.dropout(ops.cast(logarithm, self.compute_dtype))
        return ops.einsum("...fe,fn->...ne", logarithm, self.orders)

    def _implicit(self, part: Tensor) -> Tensor:
        leading, (fields, width) = ops.shape(part)[:-2], part.shape[-2:]
        flat = self.dropout(ops.reshape(part, (*leading, fields * width)))
        return ops.reshape(self.implicit(flat), (*leading, self.count, width))


def polar(real: Tensor, imaginary: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the logarithm of the modulus and the phase of complex numbers, at least in float32.

    At 0 they are about -9.2 and 0, with gradients of zero: its logarithm is infinite and its phase
    unknown.
    """
    dtype = keras.backend.result_type(real.dtype, "float32")
    real, imaginary = ops.cast(real, dtype), ops.cast(imaginary, dtype)
    squares = ops.square(real) + ops.square(imaginary)
    is_zero = squares < _TINY
    phase = ops.arctan2(
        ops.where(is_zero, ops.zeros_like(imaginary), imaginary),
        ops.where(is_zero, ops.ones_like(real), real),
    )
    return 0.5 * ops.log(squares + _TINY), phase


def _one_field_each(shape: Shape, dtype: str | None = None) -> Tensor:
    """Returns orders that are almost 1 for one field of each column, and 0 for the others."""
    drawn = keras.initializers.RandomNormal(stddev=100.0)(shape, dtype=dtype)
    return ops.softmax(drawn, axis=0)
