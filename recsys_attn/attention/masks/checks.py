"""What a mask, and what it is made of, must look like."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from recsys_attn.attention.layout import broadcast_batch
from recsys_attn.tensors import Shape, Tensor


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
        raise ValueError(
            f"`{name}` must have shape {_form(letters)}. "
            f"Received: {name}.shape={tuple(value.shape)}"
        )
    return value


def sizes_of(query_shape: Shape, key_shape: Shape) -> dict[str, int | None]:
    """What is known of the sizes of (B, N, T, S)."""
    batch = broadcast_batch(query_shape[0], key_shape[0])
    return {
        "B": None if batch == 1 else batch,  # what is checked may be what makes it a batch
        "N": query_shape[2] if len(query_shape) == 4 else None,
        "T": query_shape[1],
        "S": key_shape[1],
    }


def require_shape(name: str, given: Tensor, sizes: dict[str, int | None], *forms: str) -> None:
    """Raises unless a form in letters fits, so far as sizes are known; a size of 1 broadcasts."""
    shape = tuple(given.shape)
    for form in forms:
        if len(form) == len(shape):
            pairs = [(size, sizes[letter]) for size, letter in zip(shape, form, strict=True)]
            if all(size in (None, 1, wanted) or wanted is None for size, wanted in pairs):
                return
    expected = " or ".join(_form(form) for form in forms)
    known = ", ".join(f"{x}={sizes[x]}" for x in forms[-1] if sizes[x] is not None)
    raise ValueError(
        f"`{name}` must have shape {expected}{' with ' if known else ''}{known}. "
        f"Received: {name}.shape={shape}"
    )


def _form(letters: str) -> str:
    return f"({', '.join(letters)}{',' if len(letters) == 1 else ''})"


def _is_whole(value: Tensor) -> bool:
    dtype = keras.backend.standardize_dtype(value.dtype)
    return dtype == "bool" or keras.backend.is_int_dtype(dtype)
