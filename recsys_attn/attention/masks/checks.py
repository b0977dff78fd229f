"""What a mask, and what it is made of, must look like."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from recsys_attn.tensors import Tensor


def require_mask(name: str, mask: Tensor) -> None:
    """Raises unless it is boolean or integer: nobody can tell what a fraction allows."""
    if not _is_whole(mask):
        raise TypeError(
            f"`{name}` must be boolean, True for what may be attended, or integer; compare it "
            "with a number to make it so. What is added to the scores is an `attention_bias`. "
            f"Received: {name}.dtype={keras.backend.standardize_dtype(mask.dtype)}"
        )


def mask_of(name: str, value: Any, letters: str) -> Tensor:
    """A boolean tensor of the rank of `letters`, such as "BS"."""
    value = tensor_of(name, value, letters)
    require_mask(name, value)
    return ops.cast(value, "bool")


def integers_of(name: str, value: Any, letters: str) -> Tensor:
    """An int32 tensor of the rank of `letters`."""
    value = tensor_of(name, value, letters)
    if not _is_whole(value):
        raise TypeError(
            f"`{name}` must be integers. "
            f"Received: {name}.dtype={keras.backend.standardize_dtype(value.dtype)}"
        )
    return ops.cast(value, "int32")


def tensor_of(name: str, value: Any, letters: str) -> Tensor:
    """A tensor of the rank of `letters`."""
    value = ops.convert_to_tensor(value)
    if len(value.shape) != len(letters):
        expected = f"({', '.join(letters)}{',' if len(letters) == 1 else ''})"
        raise ValueError(
            f"`{name}` must have shape {expected}. Received: {name}.shape={tuple(value.shape)}"
        )
    return value


def _is_whole(value: Tensor) -> bool:
    dtype = keras.backend.standardize_dtype(value.dtype)
    return dtype == "bool" or keras.backend.is_int_dtype(dtype)
