"""Values of a request as the bytes of keys."""

from __future__ import annotations

import math
import numbers
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from serving.state.columns.missing import MISSING_INT
from serving.state.errors import DataError
from serving.state.keyed.keys import KeyKind, key_bytes

_PACK = struct.Struct(">cq").pack


def request_keys(
    values: Sequence[Any] | np.ndarray, kind: KeyKind, name: str
) -> list[bytes | None]:
    """The bytes of each value; None for a missing one.

    Args:
        values: As a request has them.
        kind: Kind of the column in the log.
        name: The column, for errors.

    Raises:
        DataError: A value is of another kind.
    """
    if isinstance(values, np.ndarray):
        values = values.tolist()
    if kind == "int64":
        return [
            (None if value == MISSING_INT else _PACK(b"i", value))
            if type(value) is int
            else _key(value, kind, name)
            for value in values
        ]
    return [_key(value, kind, name) for value in values]


def _key(value: Any, kind: KeyKind, name: str) -> bytes | None:
    if value is None or value == "" or value == b"" or value == MISSING_INT:
        return None
    if isinstance(value, np.generic):
        value = value.item()
    if kind == "string" and isinstance(value, str | bytes):
        return key_bytes(value, "string")
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if kind == "int64" and is_number and value == int(value):
        return key_bytes(int(value), "int64")
    if kind == "float64" and is_number:
        return None if math.isnan(value) else key_bytes(float(value), "float64")
    raise DataError(
        f"column {name!r}, a key of the state: expected {kind}, as in the log. Received: {value!r}."
    )
