"""Random integers that are equally likely for any number of them, on every backend."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from recsys_attn.tensors import Tensor

_BITS = 15
MOST = 2**31 - 2**_BITS


def random_below(shape: Any, size: Any, seed: Any) -> Tensor:
    """Returns random integers from 0 to `size - 1`, int32; 0 for a size of 0.

    `floor(size * u)` with u of 45 random bits, in integers. The integers of a backend are the
    remainder of 32 random bits: of 900 million, 265 million are drawn 1.25 times as often.

    Args:
        shape: Shape of the result.
        size: An integer or int32 integers that broadcast to the shape, at most `MOST`.
        seed: A `keras.random.SeedGenerator`.

    Example:

    >>> import keras
    >>> drawn = random_below((2, 3), 7, keras.random.SeedGenerator(0))
    >>> bool(keras.ops.all(drawn < 7))
    True
    """
    size = ops.cast(size, "int32")
    high, low = size // 2**_BITS, size % 2**_BITS
    drawn = ops.zeros(shape, "int32")
    for _ in range(3):  # Horner's rule; no product or sum is above 2^31
        digit = keras.random.randint(shape, 0, 2**_BITS, dtype="int32", seed=seed)
        rest = digit * low
        drawn = digit * high + rest // 2**_BITS + (rest % 2**_BITS + drawn) // 2**_BITS
    return drawn
