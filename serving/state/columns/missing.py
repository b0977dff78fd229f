"""The missing value of each type, for features and for keys, offline and online.

Null, the empty string, the smallest int64 and NaN are one missing value. Rows whose key
is missing have no past, and share no group, split or request. Whitespace is a value.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from serving.state.columns.arrow_kinds import is_bytes, is_text

MISSING_INT = int(np.iinfo("int64").min)  # stands for null in int64 tensors
MISSING: dict[str, Any] = {"string": "", "int64": MISSING_INT, "float32": np.float32(np.nan)}


def is_missing(values: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """Mask of the missing values `(rows,)`; in a column of lists only null is missing."""
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    missing = pc.fill_null(_stands_for_null(values), True)
    return missing.to_numpy() if isinstance(missing, pa.ChunkedArray) else missing.to_numpy(False)


def with_nulls(values: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """The values with null in the place of each missing one, so that Arrow groups them alike."""
    missing = is_missing(values)
    if int(missing.sum()) == values.null_count:
        return values
    return pc.if_else(pa.array(missing), pa.scalar(None, values.type), values)


def _stands_for_null(values: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    kind = values.type
    if pa.types.is_int64(kind):
        return pc.equal(values, MISSING_INT)
    if pa.types.is_floating(kind):
        return pc.is_nan(values)
    if is_text(kind) or is_bytes(kind):
        return pc.equal(pc.binary_length(values), 0)
    return values.is_null()
