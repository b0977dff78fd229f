"""Profiles, the static features of a user or an item, as bytes: a format, a time, and JSON.

| bytes | content |
|---|---|
| 8 | format |
| 8 | time of the profile: microseconds since 1970 when its table was written, or of its push |
| rest | the values in the order of the definition, as a JSON list |

JSON gives strings, int64 and float32 back to the bit.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from serving.state.columns.arrow_kinds import is_list
from serving.state.columns.missing import MISSING
from serving.state.definitions.group import FORMAT
from serving.state.definitions.static_features import StaticFeatures
from serving.state.errors import DataError

_HEADER = struct.Struct("<2q")
_HEADER_TYPE = np.dtype([("format", "<i8"), ("time", "<i8")])


def encode_profiles(static: StaticFeatures, rows: pa.Table, times: Sequence[int]) -> list[bytes]:
    """The profile of each row as bytes.

    Args:
        static: The definition.
        rows: Its columns.
        times: Of each row.
    """
    columns = [rows[field.name].to_pylist() for field in static.features]
    return [
        _HEADER.pack(FORMAT, time)
        + json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode()
        for time, *values in zip(times, *columns, strict=True)
    ]


def decode_profiles(static: StaticFeatures, blobs: Sequence[bytes | None]) -> dict[str, np.ndarray]:
    """The values of all profiles by feature, each `(blobs,)`.

    A number or a text that is not known is the missing value of its type, a list is empty.

    Args:
        static: The definition.
        blobs: Bytes of each profile; None: nothing is known.

    Raises:
        DataError: A blob is damaged, or of another format.
    """
    profile_times(blobs)
    nothing = json.dumps([None] * len(static.features)).encode()
    rows = [nothing if blob is None else blob[_HEADER.size :] for blob in blobs]
    try:
        # One text for all: a call of the parser for each costs more than its parsing.
        parsed = json.loads(b"[%b]" % b",".join(rows))
        columns = list(zip(*parsed, strict=True)) if rows else [()] * len(static.features)
        pairs = zip(static.features, columns, strict=True)
        return {field.name: _array(column, field.type) for field, column in pairs}
    except (ValueError, TypeError, OverflowError) as error:
        raise _damaged(str(error)) from None


def profile_times(blobs: Sequence[bytes | None]) -> np.ndarray:
    """`(blobs,)`, the time of each profile; -1: there is none.

    Raises:
        DataError: A blob is of another format.
    """
    times = np.full(len(blobs), -1)
    present = [place for place, blob in enumerate(blobs) if blob is not None]
    headers = [blob[: _HEADER.size] for blob in blobs if blob is not None]
    if any(len(header) < _HEADER.size for header in headers):
        raise _damaged(f"it has {min(map(len, headers))} bytes")
    header = np.frombuffer(b"".join(headers), _HEADER_TYPE)
    if (header["format"] != FORMAT).any():
        raise _damaged(f"expected format {FORMAT}, received {header['format'].max()}")
    times[present] = header["time"]
    return times


def _array(column: Sequence[Any], kind: pa.DataType) -> np.ndarray:
    if pa.types.is_floating(kind):
        return np.array(column, np.float32)  # None is NaN
    if is_list(kind):
        return np.fromiter((list(value or ()) for value in column), object, len(column))
    missing = MISSING[str(kind)]
    dtype = object if isinstance(missing, str) else np.int64
    return np.array([missing if value is None else value for value in column], dtype)


def _damaged(reason: str) -> DataError:
    return DataError(
        f"The static features of a key cannot be read: {reason}. Load them anew with `recsys-attn "
        "state load --force`."
    )
