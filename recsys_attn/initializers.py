"""Initial values of several weights kept in one tensor."""

from __future__ import annotations

from collections.abc import Callable

import keras
from keras import ops

from recsys_attn.tensors import Tensor


def blockwise(count: int, axis: int, initializer: str = "glorot_uniform") -> Callable[..., Tensor]:
    """Draws `count` equal blocks along `axis`, each on its own and with its own fans.

    Experts, heads and tasks that share one tensor, and so one matrix product, must still start
    different from each other, and as large as if each had a tensor of its own.
    """

    def initialize(shape: tuple[int, ...], dtype: str | None = None) -> Tensor:
        block = list(shape)
        block[axis] //= count
        # A new initializer for each block: one object would give every block the same values.
        draws = [keras.initializers.get(initializer)(block, dtype=dtype) for _ in range(count)]
        return ops.concatenate(draws, axis=axis)

    return initialize
