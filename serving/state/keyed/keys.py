"""Keys: typed and length-prefixed bytes of the values of `by`."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from serving.state.definitions.key_kinds import KeyKind, key_kind

Key = tuple[bytes, ...]  # of each column
_LONGEST = 60  # bytes of one column, as a key of LMDB has at most 511
_SIZES = {b"i": 9, b"f": 9, b"h": 17, b"s": None}


def column_keys(values: pa.Array) -> list[bytes]:
    """The bytes of each value, none of which is missing."""
    return keys_of(plain_values(values), key_kind(values.type))


def plain_values(values: pa.Array) -> list[Any]:
    """Values that are equal if their bytes are: texts, or whole numbers; of a float its bits."""
    kind = key_kind(values.type)
    if pa.types.is_temporal(values.type):
        values = values.view(pa.int32() if values.type.bit_width == 32 else pa.int64())
    if kind == "float64":
        values = values.cast(pa.float64()).view(pa.int64())
    elif kind == "int64":
        values = values.cast(pa.int64())
    return list(values.to_pylist())


def keys_of(values: Sequence[Any], kind: KeyKind) -> list[bytes]:
    """The bytes of values that `plain_values` gives.

    Args:
        values: The values.
        kind: The kind of their column.
    """
    if kind == "string":
        return [key_bytes(value, kind) for value in values]
    words = np.empty(len(values), [("kind", "S1"), ("value", ">i8")])
    words["kind"], words["value"] = kind[0], values
    data, size = words.tobytes(), words.itemsize
    return [data[start : start + size] for start in range(0, len(data), size)]


def key_bytes(value: Any, kind: KeyKind) -> bytes:
    """The bytes of one value, as `column_keys` gives them.

    Args:
        value: A text, bytes or a number.
        kind: The kind of its column.
    """
    if kind == "int64":
        return b"i" + struct.pack(">q", value)
    if kind == "float64":
        return b"f" + struct.pack(">d", value)
    data = value if isinstance(value, bytes) else str(value).encode()
    if len(data) > _LONGEST:
        return b"h" + hash_of(data)
    return b"s" + struct.pack(">H", len(data)) + data


def split_key(data: bytes) -> Key:
    """The bytes of each column from those of a key, one after the other."""
    parts = []
    while data:
        size = _SIZES[data[:1]]
        if size is None:
            size = 3 + int(struct.unpack(">H", data[1:3])[0])
        parts.append(data[:size])
        data = data[size:]
    return tuple(parts)


def hash_of(data: bytes) -> bytes:
    """A hash of 16 bytes, so long that two values never share one."""
    return hashlib.blake2b(data, digest_size=16).digest()
