"""Checks of masks, biases and positions: types and shapes."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from recsys_attn.attention.core.head_layout import broadcast_batch
from recsys_attn.checks import is_whole, require_mask
from recsys_attn.tensors import Shape, Tensor


def mask_of(name: str, value: Any, letters: str) -> Tensor:
    """Returns a mask as booleans; its rank must be that of `letters`, such as "BS"."""
    value = tensor_of(name, value, letters)
    require_mask(name, value)
    return ops.cast(value, "bool")


def integers_of(name: str, value: Any, letters: str) -> Tensor:
    """Returns integers as int32; their rank must be that of `letters`."""
    value = tensor_of(name, value, letters)
    if not is_whole(value):
        raise TypeError(
            f"`{name}` must be integers. "
            f"Received: {name}.dtype={keras.backend.standardize_dtype(value.dtype)}"
        )
    return ops.cast(value, "int32")


def tensor_of(name: str, value: Any, letters: str) -> Tensor:
    """Returns a tensor; its rank must be that of `letters`."""
    value = ops.convert_to_tensor(value)
    if len(value.shape) != len(letters):
        raise ValueError(
            f"`{name}` must have shape {_form(letters)}. "
            f"Received: {name}.shape={tuple(value.shape)}"
        )
    return value


def require_fit(query_shape: Shape, key_shape: Shape, **arguments: Any) -> None:
    """Raises unless masks, a bias and positions fit queries (B, T, ...) and keys (B, S, ...).

    Only shapes and dtypes are checked, so that a symbolic call fails at once too.

    Args:
        query_shape: Shape of the queries, with N if it is known.
        key_shape: Shape of the keys.
        arguments: Arguments by name; None for those not given.
    """
    batch = broadcast_batch(query_shape[0], key_shape[0])
    sizes = {
        "B": None if batch == 1 else batch,  # a mask may have the larger batch
        "N": query_shape[2] if len(query_shape) == 4 else None,
        "T": query_shape[1],
        "S": key_shape[1],
    }
    for name, value in arguments.items():
        if value is None:
            continue
        if not hasattr(value, "shape"):
            require_tensor(name, value)
            value = ops.convert_to_tensor(value)
        letter = "T" if name.startswith("query") else "S"
        if name.endswith("positions"):
            require_positions(name, value, sizes, letter)
        elif name.startswith("attention"):
            require_pairs(name, value, sizes, is_mask=name.endswith("mask"))
        else:
            require_mask(name, value)
            require_shape(name, value, sizes, f"B{letter}")


def require_tensor(name: str, value: Any) -> None:
    """Raises for an argument of the constructor, such as a pattern."""
    if isinstance(value, list | tuple | int | float):
        return
    hint = "Give a pattern to the mechanism: Dense(pattern=...). " if callable(value) else ""
    raise TypeError(
        f"`{name}` must be a tensor. {hint}Received: {value!r} of type {type(value).__name__}"
    )


def require_pairs(name: str, pairs: Tensor, sizes: dict[str, int | None], is_mask: bool) -> None:
    """Raises unless `pairs` is a mask or a bias of pairs, (B, T, S) or (B, N, T, S)."""
    if is_mask:
        require_mask(name, pairs)
    elif keras.backend.standardize_dtype(pairs.dtype) == "bool":
        raise TypeError(
            f"`{name}` is added to the scores. Give a mask as `attention_mask`. "
            f"Received: {name}.dtype=bool"
        )
    require_shape(name, pairs, sizes, "BTS", "BNTS")


def require_positions(
    name: str, positions: Tensor, sizes: dict[str, int | None], letter: str
) -> None:
    """Raises unless positions are integers (T,), (B, T) or (B, N, T), or with S instead of T."""
    if not keras.backend.is_int_dtype(positions.dtype):
        raise TypeError(
            f"`{name}` must be integers. "
            f"Received: {name}.dtype={keras.backend.standardize_dtype(positions.dtype)}"
        )
    require_shape(name, positions, sizes, letter, f"B{letter}", f"BN{letter}")


def require_shape(name: str, tensor: Tensor, sizes: dict[str, int | None], *forms: str) -> None:
    """Raises unless one of the forms fits the known sizes; a size of 1 broadcasts."""
    shape = tuple(tensor.shape)
    for form in forms:
        if len(form) == len(shape):
            for letter, size in zip(form, shape, strict=True):
                if sizes[letter] is not None and size not in (None, 1, sizes[letter]):
                    break
            else:
                return
    expected = " or ".join(_form(form) for form in forms)
    known = ", ".join(f"{x}={sizes[x]}" for x in forms[-1] if sizes[x] is not None)
    raise ValueError(
        f"`{name}` must have shape {expected}{' with ' if known else ''}{known}. "
        f"Received: {name}.shape={shape}"
    )


def _form(letters: str) -> str:
    return f"({', '.join(letters)}{',' if len(letters) == 1 else ''})"
