"""Chunks of whole requests, and the check that requests are not scattered."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from pipelines.common.errors import PipelineError
from pipelines.common.missing import is_missing
from pipelines.ingest.hashing import hash_column
from pipelines.storage.columns import require_column
from pipelines.storage.request_rows import run_starts


def whole_requests(tables: Iterator[pa.Table], request: str, where: str) -> Iterator[pa.Table]:
    """Re-cuts tables so that each ends where a request ends."""
    held: list[pa.Table] = []  # the last request, which the next table may continue
    for table in tables:
        require_column(table.column_names, request, "data.request", where)
        table = pa.concat_tables([*held, table])
        starts = run_starts(table[request])
        if not len(starts):
            continue
        if starts[-1] > 0:
            yield table.slice(0, starts[-1])
        held = [table.slice(starts[-1])]
    yield from held


class RequestLog:
    """Finds requests whose rows are scattered; needs eight bytes per request."""

    def __init__(self, request: str) -> None:
        self._request = request
        self._hashes: list[np.ndarray] = []
        self._files: list[str] = []

    def add(self, table: pa.Table, where: str) -> None:
        """Adds the requests of a table of whole requests, and its file."""
        column = table[self._request]
        missing = int(is_missing(column).sum())
        if missing:
            raise PipelineError(
                f"{where}: the column {self._request!r} (data.request) must name the request of "
                f"every row. Received: {missing} nulls or empty ids; fill them, or name another."
            )
        self._hashes.append(hash_column(column.take(run_starts(column)), 0))
        self._files.append(where)

    def check(self) -> None:
        """Raises an error if the rows of a request are in two places."""
        hashes = np.concatenate([np.zeros(0, np.uint64), *self._hashes])
        first = np.unique(hashes, return_index=True)[1]
        again = len(hashes) - len(first)
        if again:
            repeated = np.setdiff1d(np.arange(len(hashes)), first)[0]
            ends = np.cumsum([len(part) for part in self._hashes])
            file = self._files[int(np.searchsorted(ends, repeated, side="right"))]
            raise PipelineError(
                f"{file}: the rows of a request must follow each other in one file, but "
                f"{again} runs of equal {self._request!r} (data.request) repeat an earlier "
                "request; sort the file by that column, or name another one."
            )
