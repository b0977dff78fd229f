"""Assigns rows to splits: by time, by user, by hash, by a column, or as provided."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.common.errors import PipelineError
from pipelines.ingest.source import SPLITS, Source, SourceFile
from pipelines.ingest.split_options import SplitOptions, cuts, request_times
from pipelines.storage.columns import shown_value
from pipelines.storage.hashing import hash_column, mix, uniform
from pipelines.storage.request_rows import run_starts, whole_requests
from serving.state.columns.missing import is_missing
from serving.state.columns.times import shown_time
from serving.state.errors import require_column

_TRAIN, _VALID, _TEST = range(3)


class Splitter:
    """Assigns every row of a table of whole requests the index of its split in `SPLITS`.

    A request is never divided: the user or hash of its first row decides, its earliest time, or
    the column that all its rows agree in. By time, every training request is strictly earlier than
    every validation request, and those than every test request.
    """

    def __init__(self, options: SplitOptions, source: Source, seed: int) -> None:
        self._options = options
        self._source = source
        self._seed = seed
        self._rows_seen = 0
        self._column = options.column
        self._bounds: np.ndarray | None = None  # None: the cuts of the options
        self._times: tuple[Any, Any] | None = None  # the first and the last request
        self._kind = pa.null()  # type of the times
        if options.by == "provided":
            self._check_parts()
        elif options.by == "user":
            self._column = self._named(source.user, "user")
        elif options.by == "time":
            self._column = self._named(source.time, "time")
            if not options.has_cuts:
                self._bounds = self._time_bounds(self._column)
        elif options.by == "hash":
            self._check_mixing()
            self._column = options.column or source.request

    def __call__(self, part: str, table: pa.Table, where: str) -> np.ndarray:
        """Split indices, one per row."""
        starts, lengths = request_runs(table, self._source.request)
        first_row, self._rows_seen = self._rows_seen, self._rows_seen + table.num_rows
        if self._options.by == "provided":
            split = self._provided(part, table, starts, first_row)
        elif self._options.by == "time":
            split = self._timed(table, self._column or "", starts, where)
        elif self._options.by == "column":
            split = self._named_by_row(table, self._column or "", starts, lengths, where)
        else:
            split = self._hashed(table, self._column, starts, first_row, where)
        return np.repeat(split, lengths)

    def _provided(
        self, part: str, table: pa.Table, starts: np.ndarray, first_row: int
    ) -> np.ndarray:
        if part != "train" or set(SPLITS) <= set(self._source.parts):
            return np.full(len(starts), SPLITS.index(part))
        column = self._options.column or self._source.request
        split = self._hashed(table, column, starts, first_row, "train")
        for index, name in enumerate(SPLITS):
            if name in self._source.parts:  # the provider's split stays as it is
                split[split == index] = _TRAIN
        return split

    def _timed(self, table: pa.Table, column: str, starts: np.ndarray, where: str) -> np.ndarray:
        times = request_times(table, column, starts, where)
        bounds = self._bounds
        if bounds is None:
            self._kind = table[column].type
            options = self._options
            bounds = cuts(options.valid_from, options.test_from, column, self._kind, where)
            if len(times):
                ends = (*(self._times or ()), times.min(), times.max())
                self._times = min(ends), max(ends)
        return np.searchsorted(bounds, times, side="right")

    def _named_by_row(
        self,
        table: pa.Table,
        column: str,
        starts: np.ndarray,
        lengths: np.ndarray,
        where: str,
    ) -> np.ndarray:
        require_column(table.column_names, column, "data.split.column", where)
        kind, values = table[column].type, table[column]
        if not pa.types.is_nested(kind):
            values = values.cast(pa.string())
            codes = pc.fill_null(pc.index_in(values, pa.array(SPLITS)), -1).to_numpy()
        else:
            codes = np.full(table.num_rows, -1)
        unknown = np.flatnonzero(codes < 0)
        if len(unknown):
            raise PipelineError(
                f"{where}: column {column!r} (data.split.column): expected 'train', 'valid' or "
                f"'test' in every row. Received: {shown_value(table[column][int(unknown[0])])}."
            )
        split = codes[starts]
        other = np.flatnonzero(codes != np.repeat(split, lengths))
        if len(other):
            row = int(other[0])
            request = shown_value(table[self._source.request or column][row])
            raise PipelineError(
                f"{where}: column {column!r} (data.split.column): the rows of the request "
                f"{request} name two splits, one of them {values[row].as_py()!r}; a request is "
                "never divided, so give all its rows one split."
            )
        return split

    def check(self, rows: Mapping[str, int]) -> None:
        """Raises an error if a split has no rows.

        Args:
            rows: The rows of each split.
        """
        empty = next((split for split in SPLITS if not rows[split]), None)
        if empty is None:
            return
        counts = ", ".join(f"{split} {rows[split]}" for split in SPLITS)
        raise PipelineError(
            f"The split {empty!r} is empty: {sum(rows.values())} rows were split by "
            f"{self._how()} into {counts}; {self._advice(empty)}."
        )

    def _how(self) -> str:
        options = self._options
        if options.has_cuts:
            return (
                f"time with valid_from = {options.valid_from} and test_from = {options.test_from}"
            )
        if options.by == "column":
            return f"the column {options.column!r}"
        return f"{options.by} with valid = {options.valid} and test = {options.test}"

    def _advice(self, empty: str) -> str:
        by = self._options.by
        if self._times is not None:
            first, last = (shown_time(time, self._kind) for time in self._times)
            return f"the times of {self._column!r} go from {first} to {last}: move the cuts"
        if by == "time":
            return 'data.split.column has too few different values; choose another, or by = "hash"'
        if by == "column":
            return f"write {empty!r} in some rows, or split by time, user or hash"
        if by == "provided" and empty in self._source.parts:
            return f"the files of {empty!r} hold no rows"
        if empty == "train":
            return "lower data.split.valid and data.split.test, or give more rows"
        return f"raise data.split.{empty} or give more rows"

    def _hashed(
        self, table: pa.Table, column: str | None, starts: np.ndarray, first_row: int, where: str
    ) -> np.ndarray:
        # A row without a user is one of its own: all of them in one split would be one user.
        hashed = mix(mix(first_row + starts) ^ mix(np.array([self._seed], np.uint64)))
        if column is not None:
            require_column(table.column_names, column, "data.split.column", where)
            keys = table[column].take(starts)
            hashed = np.where(is_missing(keys), hashed, hash_column(keys, self._seed))
        share = uniform(hashed)
        test, valid = self._options.test, self._options.valid
        return np.where(share < test, _TEST, np.where(share < test + valid, _VALID, _TRAIN))

    def _named(self, default: str | None, role: str) -> str:
        if self._options.column is None and default is None:
            raise PipelineError(
                f'data.split.by = "{role}" needs the column of the {role}: set data.split.column.'
            )
        return self._options.column or default or ""

    def _check_parts(self) -> None:
        if "train" not in self._source.parts:
            raise PipelineError(
                'data.split.by = "provided" needs files that name their split, as folders train, '
                "valid and test; here they do not: choose by = time, user or hash."
            )

    def _check_mixing(self) -> None:
        named = [split for split in SPLITS if split in self._source.parts]
        if named and "by" not in self._options.model_fields_set:
            raise PipelineError(
                f"The files name their splits ({', '.join(named)}), and data.split.by is not set: "
                'expected by = "provided", which keeps them, or by = "hash", "user" or "time", '
                "which mixes them."
            )

    def _time_bounds(self, column: str) -> np.ndarray:
        """The first time of validation and the first time of test."""
        shares = (1 - self._options.valid - self._options.test, 1 - self._options.test)
        if self._source.time_quantile is not None and column == self._source.time:
            return np.array([self._source.time_quantile(share) for share in shares])
        columns = frozenset(name for name in (column, self._source.request) if name is not None)
        times = [
            np.repeat(request_times(table, column, starts, where), lengths)
            for _, where, table in read_chunks(self._source, columns)
            for starts, lengths in [request_runs(table, self._source.request)]
        ]
        if not times:
            return np.zeros(2)
        ordered = np.sort(np.concatenate(times))
        last = len(ordered) - 1
        return np.array([ordered[min(last, round(share * len(ordered)))] for share in shares])


def read_chunks(
    source: Source, columns: frozenset[str] | None = None
) -> Iterator[tuple[str, str, pa.Table]]:
    """Part, file and table of every chunk, each of whole requests."""
    for part, files in source.parts.items():
        for file in files:
            for table in file_chunks(source, file, columns):
                yield part, file.where, table


def file_chunks(
    source: Source, file: SourceFile, columns: frozenset[str] | None = None
) -> Iterator[pa.Table]:
    """The tables of one file, each of whole requests."""
    tables = file.read(columns)
    if source.request is None:
        return tables
    return whole_requests(tables, source.request, file.where)


def request_runs(table: pa.Table, request: str | None) -> tuple[np.ndarray, np.ndarray]:
    """First row and number of rows of every request; with None every row is a request."""
    starts = np.arange(table.num_rows) if request is None else run_starts(table[request])
    return starts, np.diff(starts, append=table.num_rows)
