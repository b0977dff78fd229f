"""Checks of arguments, each with one form of message."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from numbers import Integral
from typing import Any


def require_positive(name: str, value: Any) -> None:
    """Raises unless `value` is a positive integer."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise ValueError(f"`{name}` must be a positive integer. Received: {name}={value!r}")


def require_not_negative(name: str, value: Any) -> None:
    """Raises unless `value` is zero or a positive integer."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 0:
        raise ValueError(f"`{name}` must be an integer of at least 0. Received: {name}={value!r}")


def require_mask_of(name: str, mask: Any, inputs: Any) -> None:
    """Raises unless `mask` has the shape of `inputs` without the last axis."""
    expected = tuple(inputs.shape[:-1])
    if len(mask.shape) != len(expected) or any(
        None not in sizes and sizes[0] != sizes[1]
        for sizes in zip(mask.shape, expected, strict=True)
    ):
        raise ValueError(
            f"`{name}` must have the shape of `inputs` without the last axis, {expected}. "
            f"Received: {name}.shape={tuple(mask.shape)}"
        )


def unknown_name(name: Any, names: Iterable[str]) -> str:
    """The end of an error: the valid names, what was received, and the nearest valid name."""
    valid = sorted(names)
    nearest = difflib.get_close_matches(name, valid, n=1) if isinstance(name, str) else []
    hint = f". Did you mean {nearest[0]!r}?" if nearest else ""
    return f"Valid names: {valid}. Received: {name!r}{hint}"
