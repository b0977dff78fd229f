"""The features of Performers."""

from __future__ import annotations

from typing import Any

from keras import ops

from recsys_attn.attention.feature_maps.base import FEATURE_MAPS, stable_exp
from recsys_attn.attention.feature_maps.random_features import RandomFeatures
from recsys_attn.checks import require_bool, unknown_name
from recsys_attn.tensors import Tensor

_KERNELS = ("relu", "softmax")
_EPSILON = {"relu": 1e-3, "softmax": 1e-6}  # added to every feature, so that no sum is zero
_LARGEST = 40.0  # of an exponent: a sum of many exp(40) is far from overflow in float32


@FEATURE_MAPS.register("favor")
class Favor(RandomFeatures):
    """FAVOR+: positive features whose products are `exp(q . k / sqrt(H))` on average.

    `phi(x) = exp(w_m . x' - |x'|^2 / 2) + epsilon`, `x' = x / H^(1/4)`, `w_m ~ N(0, I)`

    So linear attention approximates `Dense("scaled_dot")`. The error falls as one over the square
    root of the number of features, once it is far above `exp(|q' + k'|^2)`: short queries and keys
    help more than more features.

    For stability the maximum over features is subtracted from the exponents of a query, and the
    maximum over features and positions from those of keys. With `streaming` the exponents of keys
    are only clipped at 40: then the features of keys with |k'|^2 / 2 far above 14 vanish beside
    epsilon, and such keys get equal weights.

    The kernel `"relu"` is `phi(x) = relu(w_m . x / sqrt(M)) + 0.001`, which approximates no
    softmax.

    Source: Choromanski et al., "Rethinking Attention with Performers", ICLR 2021,
    arXiv 2009.14794.

    Args:
        features: Number of features M. Defaults to 256; raise it for a smaller error.
        kernel: `"softmax"` or `"relu"`.
        orthogonal: Whether the random vectors are orthogonal in groups of H, which reduces the
            error.
        regularized: Whether all orthogonal vectors have the length sqrt(H): an even smaller error,
            for a kernel that is slightly smaller than that of the softmax.
        redraw_every: Number of training steps between redraws. Defaults to None: never.

    Raises:
        ValueError: A number is not positive, or the kernel is not known.

    Example:

    >>> import keras
    >>> from recsys_attn.attention.feature_maps import Favor
    >>> candidates = keras.random.normal((2, 3, 4, 8))
    >>> history = keras.random.normal((2, 5, 4, 8))
    >>> [tuple(features.shape) for features in Favor(features=32)(candidates, history)]
    [(2, 4, 3, 32), (2, 4, 5, 32)]
    """

    def __init__(
        self,
        features: int = 256,
        kernel: str = "softmax",
        *,
        orthogonal: bool = True,
        regularized: bool = False,
        redraw_every: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(features, orthogonal=orthogonal, redraw_every=redraw_every, **kwargs)
        if kernel not in _KERNELS:
            raise ValueError("`kernel` is not known. " + unknown_name(kernel, _KERNELS))
        require_bool("regularized", regularized)
        if regularized and not orthogonal:
            raise ValueError(
                "`regularized` sets the length of orthogonal vectors; leave `orthogonal` True. "
                "Received: regularized=True, orthogonal=False"
            )
        self.kernel = kernel
        self.regularized = regularized

    def count(self, head_size: int) -> int:
        return self.features

    def query_features(self, query: Tensor) -> Tensor:
        if self.kernel == "relu":
            return self._relu(query)
        # |q'|^2 / 2 is a common factor of all features of a query, so it cancels.
        exponents = ops.matmul(self._scaled(query), self.projection)
        return stable_exp(exponents, axis=-1) + _EPSILON["softmax"]

    def key_features(
        self, key: Tensor, real: Tensor | None = None, streaming: bool = False
    ) -> Tensor:
        if self.kernel == "relu":
            return self._relu(key)
        key = self._scaled(key)
        half_norms = 0.5 * ops.sum(ops.square(key), axis=-1, keepdims=True)
        exponents = ops.matmul(key, self.projection) - half_norms
        if streaming:
            features = ops.exp(ops.minimum(exponents, _LARGEST))
        else:
            features = stable_exp(exponents, axis=(2, 3), real=real)
        return features + _EPSILON["softmax"]

    def _scaled(self, x: Tensor) -> Tensor:
        return x * x.shape[-1] ** -0.25

    def _relu(self, x: Tensor) -> Tensor:
        projected = ops.matmul(x * self.features**-0.5, self.projection)
        return ops.relu(projected) + _EPSILON["relu"]
