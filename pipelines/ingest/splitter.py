"""Assigns rows to splits: by time, by user, by hash, or as provided."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.common.errors import PipelineError
from pipelines.ingest.data_options import SplitOptions
from pipelines.ingest.hashing import hash_column, mix, uniform
from pipelines.ingest.request_log import whole_requests
from pipelines.ingest.source import SPLITS, Source, SourceFile
from pipelines.storage.columns import require_column
from pipelines.storage.request_rows import run_starts

_TRAIN, _VALID, _TEST = range(3)


class Splitter:
    """Assigns every row of a table of whole requests the index of its split in `SPLITS`.

    A request is never divided: the user or hash of its first row decides, or its earliest time.
    By time, every training request is strictly earlier than every validation request, and those
    than every test request.
    """

    def __init__(self, options: SplitOptions, source: Source, seed: int) -> None:
        self._options = options
        self._source = source
        self._seed = seed
        self._rows_seen = 0
        self._column = options.column
        if options.by == "provided":
            self._check_parts()
        elif options.by == "user":
            self._column = self._named(source.user, "user")
        elif options.by == "time":
            self._column = self._named(source.time, "time")
            self._bounds = self._time_bounds(self._column)
        elif self._column is None:
            self._column = source.request

    def __call__(self, part: str, table: pa.Table, where: str) -> np.ndarray:
        """Split indices, one per row."""
        starts, lengths = request_runs(table, self._source.request)
        first_row, self._rows_seen = self._rows_seen, self._rows_seen + table.num_rows
        if self._options.by == "provided":
            split = self._provided(part, table, starts, first_row)
        elif self._options.by == "time":
            times = _request_times(table, self._column or "", starts, where)
            split = np.searchsorted(self._bounds, times, side="right")
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

    def _hashed(
        self, table: pa.Table, column: str | None, starts: np.ndarray, first_row: int, where: str
    ) -> np.ndarray:
        if column is None:
            hashed = mix(mix(first_row + starts) ^ mix(np.array([self._seed], np.uint64)))
        else:
            require_column(table.column_names, column, "data.split.column", where)
            hashed = hash_column(table[column].take(starts), self._seed)
        share = uniform(hashed)
        test, valid = self._options.test, self._options.valid
        return np.where(share < test, _TEST, np.where(share < test + valid, _VALID, _TRAIN))

    def _named(self, own: str | None, role: str) -> str:
        if self._options.column is None and own is None:
            raise PipelineError(
                f'data.split.by = "{role}" needs the column of the {role}: set data.split.column.'
            )
        return self._options.column or own or ""

    def _check_parts(self) -> None:
        if "train" not in self._source.parts:
            raise PipelineError(
                'data.split.by = "provided" needs files that name their split, as folders train, '
                "valid and test; here they do not: choose by = time, user or hash."
            )

    def _time_bounds(self, column: str) -> np.ndarray:
        """The first time of validation and the first time of test."""
        shares = (1 - self._options.valid - self._options.test, 1 - self._options.test)
        if self._source.time_quantile is not None and column == self._source.time:
            return np.array([self._source.time_quantile(share) for share in shares])
        wanted = frozenset(name for name in (column, self._source.request) if name is not None)
        times = [
            np.repeat(_request_times(table, column, starts, where), lengths)
            for _, where, table in read_chunks(self._source, wanted)
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


def _request_times(table: pa.Table, column: str, starts: np.ndarray, where: str) -> np.ndarray:
    """The earliest time of each request."""
    require_column(table.column_names, column, "data.split.column", where)
    values = table[column]
    kind = values.type
    if pa.types.is_temporal(kind):
        values = values.cast(pa.timestamp("us")).cast(pa.int64())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise PipelineError(
            f"{where}: column {column!r}: a time to split by must be a number, a date or a "
            f"timestamp, received {kind}; change data.split.column."
        )
    if values.null_count or pc.any(pc.invert(pc.is_finite(values))).as_py():
        raise PipelineError(
            f"{where}: column {column!r}: a time to split by must have no nulls and no NaN; fill "
            "them, or change data.split.column."
        )
    return np.minimum.reduceat(values.to_numpy(), starts) if len(starts) else np.zeros(0)


def check_splits(rows: dict[str, int], options: SplitOptions) -> None:
    """Raises an error if a split has no rows."""
    empty = [split for split in SPLITS if not rows[split]]
    if not empty:
        return
    total = sum(rows.values())
    counts = ", ".join(f"{split} {rows[split]}" for split in SPLITS)
    if options.by == "time":
        advice = 'data.split.column has too few different values; choose another, or by = "hash"'
    elif empty[0] == "train":
        advice = "lower data.split.valid and data.split.test, or give more rows"
    else:
        advice = f"raise data.split.{empty[0]} or give more rows"
    raise PipelineError(
        f"The split {empty[0]!r} is empty: {total} rows were split by {options.by} with valid = "
        f"{options.valid} and test = {options.test} into {counts}; {advice}."
    )
