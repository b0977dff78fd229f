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


def unknown_name(name: Any, names: Iterable[str]) -> str:
    """The end of an error: the valid names, what was received, and the nearest valid name."""
    valid = sorted(names)
    nearest = difflib.get_close_matches(name, valid, n=1) if isinstance(name, str) else []
    hint = f". Did you mean {nearest[0]!r}?" if nearest else ""
    return f"Valid names: {valid}. Received: {name!r}{hint}"
