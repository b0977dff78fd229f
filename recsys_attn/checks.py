"""Checks of arguments, with uniform error messages."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any


def require_positive(name: str, value: Any) -> None:
    """Raises unless `value` is a positive integer."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise ValueError(f"`{name}` must be a positive integer. Received: {name}={value!r}")


def require_not_negative(name: str, value: Any) -> None:
    """Raises unless `value` is zero or a positive integer."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 0:
        raise ValueError(f"`{name}` must be an integer of at least 0. Received: {name}={value!r}")


def require_integer(name: str, value: Any) -> None:
    """Raises unless `value` is an integer."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise ValueError(f"`{name}` must be an integer. Received: {name}={value!r}")


def require_bool(name: str, value: Any) -> None:
    """Raises unless `value` is True or False; a string would count as true."""
    if not isinstance(value, bool):
        raise ValueError(f"`{name}` must be True or False. Received: {name}={value!r}")


def require_number(
    name: str,
    value: Any,
    *,
    above: float = -math.inf,
    least: float = -math.inf,
    most: float = math.inf,
    below: float = math.inf,
    hint: str = "",
) -> None:
    """Raises unless `value` is a finite number within bounds; the error ends with `hint`."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    number = float(value) if is_number else math.nan
    if math.isfinite(number) and above < number < below and least <= number <= most:
        return
    bounds = {"above": above, "of at least": least, "at most": most, "below": below}
    words = " and ".join(f"{word} {x:g}" for word, x in bounds.items() if math.isfinite(x))
    raise ValueError(
        f"`{name}` must be a finite number{words and f' {words}'}{hint and f'; {hint}'}. "
        f"Received: {name}={value!r}"
    )


def require_share(name: str, value: Any) -> None:
    """Raises unless `value` is a number from 0 to 1, such as a dropout rate."""
    require_number(name, value, least=0, most=1)


def require_sizes(name: str, values: Any) -> tuple[int, ...]:
    """Returns a list of positive integers, perhaps empty, as a tuple."""
    if isinstance(values, str | bytes) or not isinstance(values, Sequence):
        raise ValueError(
            f"`{name}` must be a list of positive integers. Received: {name}={values!r}"
        )
    for index, size in enumerate(values):
        require_positive(f"{name}[{index}]", size)
    return tuple(values)


def require_mask(name: str, mask: Any) -> None:
    """Raises unless a mask is boolean or integer; a fraction has no meaning."""
    if not is_whole(mask):
        import keras  # takes seconds, and the schema needs none

        raise TypeError(
            f"`{name}` must be boolean or integer; make it boolean by a comparison. A number to "
            "add to the scores is an `attention_bias`. "
            f"Received: {name}.dtype={keras.backend.standardize_dtype(mask.dtype)}"
        )


def is_whole(x: Any) -> bool:
    """Returns whether a tensor is boolean or integer."""
    import keras

    dtype = keras.backend.standardize_dtype(x.dtype)
    return dtype == "bool" or keras.backend.is_int_dtype(dtype)


def require_mask_of(name: str, mask: Any, inputs: Any) -> None:
    """Raises unless `mask` is None, or a mask of the shape of `inputs` without the last axis."""
    if mask is None:
        return
    require_mask(name, mask)
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
    """Returns the end of an error: valid names, received name, and the nearest valid name."""
    valid = sorted(names)
    nearest = difflib.get_close_matches(name, valid, n=1) if isinstance(name, str) else []
    hint = f". Did you mean {nearest[0]!r}?" if nearest else ""
    return f"Valid names: {valid}. Received: {name!r}{hint}"


def require_different(argument: str, names: Sequence[str]) -> None:
    """Raises `ValueError` where a name stands twice."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"`{argument}` must have different names. Received twice: {twice}")


@contextmanager
def errors_of(owner: str) -> Iterator[None]:
    """Begins the errors of a block with their owner, such as the name of a feature."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{owner}: {error}") from None
