"""Random Fourier features."""

from __future__ import annotations

import math
from typing import Any

from keras import ops

from recsys_attn.attention.core.normalise import unit
from recsys_attn.attention.feature_maps.base import FEATURE_MAPS
from recsys_attn.attention.feature_maps.random_features import RandomFeatures
from recsys_attn.checks import require_number
from recsys_attn.tensors import Tensor

# A mean of so many features cannot be distinguished from zero below this.
_NOISE = 0.01


@FEATURE_MAPS.register("fourier")
class Fourier(RandomFeatures):
    """Features whose products are the Gaussian kernel of unit vectors, on average.

    `phi(x) = [sin(w_m . x / sigma), cos(w_m . x / sigma)] / sqrt(D)`, `w_m ~ N(0, I)`, with q
    and k divided by their lengths: `E[phi(q) . phi(k)] = exp(-|q - k|^2 / (2 sigma^2))`, in
    proportion to `exp(q . k / sigma^2)`.

    Features, and estimates of a similarity, may be negative. The exact similarity to one key is at
    least `exp(-2 / sigma^2)`; a smaller sum of similarities (or one below 0.01, the precision of
    the features) is raised to it.

    Source: Peng et al., "Random Feature Attention", ICLR 2021, arXiv 2103.02143. The paper draws
    w from N(0, sigma^2 I) and names the same kernel; the two agree only for w from
    N(0, I / sigma^2), as here.

    Args:
        features: Number of random vectors D, for 2 D features. Raise it for a smaller error.
        sigma: Width of the kernel. Lower it for sharper attention, with more features.
        orthogonal: Whether the random vectors are orthogonal in groups of H.
        redraw_every: Number of training steps between redraws. Defaults to None: never.

    Raises:
        ValueError: A number is not positive.

    Example:

    >>> import keras
    >>> from recsys_attn.attention.feature_maps import Fourier
    >>> candidates = keras.random.normal((2, 3, 4, 8))
    >>> history = keras.random.normal((2, 5, 4, 8))
    >>> [tuple(features.shape) for features in Fourier(features=32)(candidates, history)]
    [(2, 4, 3, 64), (2, 4, 5, 64)]
    """

    def __init__(
        self,
        features: int = 128,
        sigma: float = 1.0,
        *,
        orthogonal: bool = False,
        redraw_every: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(features, orthogonal=orthogonal, redraw_every=redraw_every, **kwargs)
        require_number("sigma", sigma, above=0)
        self.sigma = sigma
        self.floor = max(math.exp(-2 / sigma**2), _NOISE)

    def count(self, head_size: int) -> int:
        return 2 * self.features

    def query_features(self, query: Tensor) -> Tensor:
        angles = ops.matmul(unit(query) / self.sigma, self.projection)
        waves = ops.concatenate([ops.sin(angles), ops.cos(angles)], axis=-1)
        return waves * self.features**-0.5
