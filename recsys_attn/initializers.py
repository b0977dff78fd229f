"""Initializers of several weights in one tensor."""

from __future__ import annotations

from collections.abc import Callable

import keras
from keras import ops

from recsys_attn.tensors import Tensor


def blockwise(count: int, axis: int, initializer: str = "glorot_uniform") -> Callable[..., Tensor]:
    """Draws `count` blocks of equal size along `axis`, each with its own fans.

    So experts, heads and tasks in one tensor start different from each other, with the same scale
    as in tensors of their own.
    """

    def initialize(shape: tuple[int, ...], dtype: str | None = None) -> Tensor:
        block = list(shape)
        block[axis] //= count
        # A new initializer per block: one object would give every block the same values.
        draws = [keras.initializers.get(initializer)(block, dtype=dtype) for _ in range(count)]
        return ops.concatenate(draws, axis=axis)

    return initialize


def glorot(gain: float) -> keras.initializers.Initializer:
    """Returns Glorot's uniform initializer with its values times `gain`."""
    return keras.initializers.VarianceScaling(gain**2, mode="fan_avg", distribution="uniform")
