"""The rows of each request: where requests begin, chunks of whole ones, and their order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.common.errors import PipelineError
from pipelines.storage.dataset import DataSplit, Reader
from pipelines.storage.hashing import hash_column
from serving.state.columns.missing import is_missing, with_nulls
from serving.state.errors import require_column


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


def check_requests(split: DataSplit, request: str) -> None:
    """Checks that the rows of each request follow each other, in one pass over their ids.

    A request may go on in the next file.

    Raises:
        PipelineError: The rows of a request are in two places, or a row has no request.
    """
    log, footers = RequestLog(request, across_files=True), split.footers
    with Reader(footers, [request]) as reader:
        for number in range(len(footers)):
            log.add(reader.read([number]), footers.file_name(footers.file[number]))
    log.check()


class RequestLog:
    """Finds requests whose rows are scattered; needs eight bytes per request.

    Args:
        request: Column of the request id.
        across_files: Whether a request may go on in the next table.
    """

    def __init__(self, request: str, across_files: bool = False) -> None:
        self._request = request
        self._across_files = across_files
        self._last: np.uint64 | None = None
        self._hashes: list[np.ndarray] = []
        self._files: list[str] = []

    def add(self, table: pa.Table, where: str) -> None:
        """Adds the requests of a table, of whole ones unless they go on, and its file."""
        column = table[self._request]
        if not len(column):
            return
        missing = int(is_missing(column).sum())
        if missing:
            raise PipelineError(
                f"{where}: the column {self._request!r} (data.request) must name the request of "
                f"every row. Received: {missing} nulls or empty ids; fill them, or name another."
            )
        hashes = hash_column(column.take(run_starts(column)), 0)
        if self._across_files and self._last == hashes[0]:
            hashes = hashes[1:]
        self._last = hashes[-1] if len(hashes) else self._last
        self._hashes.append(hashes)
        self._files.append(where)

    def check(self) -> None:
        """Raises an error if the rows of a request are in two places."""
        hashes = np.concatenate([np.zeros(0, np.uint64), *self._hashes])
        requests, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
        again = len(hashes) - len(requests)
        if not again:
            return
        repeated = np.setdiff1d(np.arange(len(hashes)), first)[0]
        file, other = self._file(repeated), self._file(first[inverse[repeated]])
        place = "" if self._across_files else " in one file"
        rows = "all rows" if self._across_files else "the file"
        advice = f"sort {rows} by that column, or name another one"
        if file != other:
            advice = f"the first is in {other} too: is one of the files a copy? If not, "
            advice += f"merge the files, sorted by {self._request!r}"
        raise PipelineError(
            f"{file}: the rows of a request must follow each other{place}, but {again} runs of "
            f"equal {self._request!r} (data.request) repeat an earlier request; {advice}."
        )

    def _file(self, run: int) -> str:
        ends = np.cumsum([len(part) for part in self._hashes])
        return self._files[int(np.searchsorted(ends, run, side="right"))]
