"""Kinds of keys and of listed values: texts, whole numbers and others."""

from __future__ import annotations

from typing import Literal

import pyarrow as pa

from serving.state.columns.arrow_kinds import is_bytes, is_text

KeyKind = Literal["string", "int64", "float64"]


def key_kind(kind: pa.DataType) -> KeyKind:
    """The kind of key of a column: ids of 64 bits without sign are their digits."""
    if is_text(kind) or is_bytes(kind) or pa.types.is_uint64(kind) or pa.types.is_decimal(kind):
        return "string"
    return "float64" if pa.types.is_floating(kind) else "int64"
