"""The static features of a user as bytes: a format, a version, and JSON.

| bytes | content |
|---|---|
| 8 | format |
| 8 | version of the profile, which grows by 1 with each write |
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
from serving.state.definitions.user_features import UserFeatures
from serving.state.errors import DataError

_HEADER = struct.Struct("<2q")


def encode_profiles(users: UserFeatures, rows: pa.Table, versions: Sequence[int]) -> list[bytes]:
    """The profile of each row as bytes.

    Args:
        users: The definition.
        rows: Its columns.
        versions: Of each row.
    """
    columns = [rows[field.name].to_pylist() for field in users.features]
    return [
        _HEADER.pack(FORMAT, version)
        + json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode()
        for version, *values in zip(versions, *columns, strict=True)
    ]


def decode_profile(users: UserFeatures, blob: bytes | None) -> dict[str, Any]:
    """The values by name; None: nothing is known of the user.

    A number or a text that is not known is the missing value of its type, a list is empty.

    Raises:
        DataError: The blob is damaged, or of another format.
    """
    if blob is None:
        return {field.name: _value(None, field.type) for field in users.features}
    profile_version(blob)
    try:
        values = json.loads(blob[_HEADER.size :])
        pairs = list(zip(users.features, values, strict=True))
        return {field.name: _value(value, field.type) for field, value in pairs}
    except (ValueError, TypeError) as error:
        raise _damaged(str(error)) from None


def profile_version(blob: bytes | None) -> int:
    """How many times a profile was written.

    Raises:
        DataError: The blob is of another format.
    """
    if blob is None:
        return 0
    if len(blob) < _HEADER.size:
        raise _damaged(f"it has {len(blob)} bytes")
    written, version = _HEADER.unpack_from(blob)
    if written != FORMAT:
        raise _damaged(f"expected format {FORMAT}, received {written}")
    return int(version)


def _value(value: Any, kind: pa.DataType) -> Any:
    if is_list(kind):
        return list(value or ())
    if value is None:
        return MISSING["float32" if pa.types.is_floating(kind) else str(kind)]
    return np.float32(value) if pa.types.is_floating(kind) else value


def _damaged(reason: str) -> DataError:
    return DataError(
        f"The features of a user cannot be read: {reason}. Load them anew with `recsys-attn state "
        "load`."
    )
