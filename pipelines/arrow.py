"""Arrow's types of the schema's raw values."""

from __future__ import annotations

import pyarrow as pa

from recsys_attn.schema import RawType

_ARROW = {"string": pa.string(), "int64": pa.int64(), "float32": pa.float32()}


def arrow_type(dtype: RawType, listed: bool = False) -> pa.DataType:
    """The Arrow type of a raw value, or of a list of them."""
    return pa.list_(_ARROW[dtype]) if listed else _ARROW[dtype]
