"""Random inputs of tests, their outputs as arrays, and the usual tolerance."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

Array = np.ndarray


def normal(*shapes: tuple[int, ...], seed: int = 3) -> list[Array]:
    """Float32 arrays of the standard normal distribution."""
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape).astype("float32") for shape in shapes]


def numpy(tensor: Any) -> Array:
    """A tensor of any backend as an array; bfloat16, which NumPy lacks, as float32."""
    if keras.backend.standardize_dtype(getattr(tensor, "dtype", "float32")) == "bfloat16":
        tensor = keras.ops.cast(tensor, "float32")
    return keras.ops.convert_to_numpy(tensor)


def weights_of(layer: keras.layers.Layer) -> list[Array]:
    """The weights of a layer."""
    return [numpy(weight) for weight in layer.weights]


def assert_close(
    actual: Any, expected: Any, rtol: float = 1e-4, atol: float = 1e-5, err_msg: str = ""
) -> None:
    """Compares with the tolerance of float32 sums."""
    np.testing.assert_allclose(numpy(actual), numpy(expected), rtol, atol, err_msg=err_msg)
