"""The rows of each request in a table: rows of one request follow each other."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.common.missing import with_nulls


def run_starts(column: pa.ChunkedArray) -> np.ndarray:
    """Index of each request's first row; consecutive equal values are one request.

    A row whose request is missing is one of its own.
    """
    if len(column) == 0:
        return np.zeros(0, np.int64)
    if pa.types.is_null(column.type):
        return np.arange(len(column))
    values = with_nulls(column).combine_chunks()
    change = pc.not_equal(values[1:], values[:-1])
    changed = np.flatnonzero(pc.fill_null(change, True).to_numpy(zero_copy_only=False))
    return np.concatenate(([0], changed + 1))


def request_starts(table: pa.Table, request: str | None) -> np.ndarray:
    """Row numbers at which requests begin, and the number of rows: `(requests + 1,)`.

    Rows of a request are consecutive; without a request column each row is a request.
    """
    if request is None:
        return np.arange(table.num_rows + 1)
    return np.append(run_starts(table[request]), table.num_rows)
