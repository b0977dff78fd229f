"""The folder of served rows with their outcomes, as `recsys-attn join` writes it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.common.errors import PipelineError
from pipelines.storage.filesystem import Storage, Where
from serving.state.columns.missing import is_missing

SERVED_AT, VERSION, LABEL = "served_at", "served_version", "served_label"
STATE, LAG, SCORE = "served_state", "served_lag_seconds", "served_score_"
DEGRADED = "degraded"  # a value of `STATE`
_COLUMNS = (SERVED_AT, VERSION, LABEL, STATE, LAG)
_BATCH = 65_536  # rows of features in memory
Times = tuple[datetime | None, datetime | None]


@dataclass(frozen=True)
class HourRows:
    """The rows of one file, which is one hour.

    Attributes:
        table: The columns that were asked for.
        file: The open file.
        inside: Which rows of the file they are.
    """

    table: pa.Table
    file: pq.ParquetFile
    inside: np.ndarray

    @property
    def hour(self) -> np.datetime64:
        """The hour in which all of them were answered, in UTC."""
        first = self.table[SERVED_AT].slice(0, 1).cast(pa.timestamp("us")).to_numpy()[0]
        return first.astype("datetime64[h]")

    def missing(self, features: Sequence[str]) -> Iterator[tuple[slice, str, np.ndarray]]:
        """Masks of the missing values of features, a part of the rows at a time.

        Yields:
            The rows, the feature and the mask. An empty list is a missing value.
        """
        begin = start = 0
        for batch in self.file.iter_batches(_BATCH, columns=list(features)):
            inside = self.inside[begin : begin + batch.num_rows]
            begin += batch.num_rows
            rows = slice(start, start + int(inside.sum()))
            start = rows.stop
            if rows.stop > rows.start:
                for name in features:
                    yield rows, name, _is_absent(batch[name])[inside]


@dataclass(frozen=True)
class RowFiles:
    """The files of a folder of served rows.

    Attributes:
        storage: The folder.
        files: Its files, the oldest first, relative to it.
        columns: The names of the columns; the first is the id of the request.
    """

    storage: Storage
    files: tuple[str, ...]
    columns: tuple[str, ...]

    @classmethod
    def open(cls, where: Where) -> RowFiles:
        """Lists the files.

        Raises:
            PipelineError: There are none, or they are not what `join` writes.
        """
        storage = Storage.of(where)
        storage.check_exists("folder of served rows")
        files = tuple(storage.files())
        columns = tuple(_opened(storage, files[-1]).schema_arrow.names)
        missing = [name for name in _COLUMNS if name not in columns]
        if missing:
            raise PipelineError(
                f"{storage.file_name(files[-1])} is not a file of served rows: it has no column "
                f"{missing[0]!r}. Expected the folder that `recsys-attn join` writes."
            )
        return cls(storage, files, columns)

    @property
    def request(self) -> str:
        """The column of the request id."""
        return self.columns[0]

    def hours(
        self, names: Collection[str], times: Times = (None, None), versions: Sequence[int] = ()
    ) -> Iterator[HourRows]:
        """The rows of each file, in the order of time.

        Args:
            names: The columns of `table`, besides those of serving.
            times: The times of the answers: from the first on, before the second; None: any.
            versions: Versions whose rows are read; none: all.
        """
        columns = list(dict.fromkeys([self.request, *_COLUMNS, *names]))
        for relative in self.files:
            file = _opened(self.storage, relative)
            if not _overlaps(file, times):
                continue
            absent = [name for name in columns if name not in file.schema_arrow.names]
            if absent:
                raise PipelineError(
                    f"{self.storage.file_name(relative)} has no column {absent[0]!r}. Give `--run` "
                    "the run whose model served these rows, or make them again: `recsys-attn join`."
                )
            table = file.read(columns)
            inside = _inside(table, times, versions)
            if inside.any():
                yield HourRows(table.filter(pa.array(inside)), file, inside)


def utc(time: datetime) -> datetime:
    """A time in UTC; one without a zone is in UTC."""
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def _opened(storage: Storage, relative: str) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(storage.open(relative))
    except (pa.ArrowException, OSError) as error:
        raise PipelineError(
            f"{storage.file_name(relative)} is not a readable Parquet file: {error}"
        ) from None


def _overlaps(file: pq.ParquetFile, times: Times) -> bool:
    """Whether a file may have answers of these times: the hour of its name is that of its rows."""
    if SERVED_AT not in file.schema.names:
        return True
    place = file.schema.names.index(SERVED_AT)
    groups = map(file.metadata.row_group, range(file.num_row_groups))
    known = [group.column(place).statistics for group in groups]
    if not known or not all(one is not None and one.has_min_max for one in known):
        return True
    since, until = (None if time is None else utc(time) for time in times)
    first, last = min(utc(one.min) for one in known), max(utc(one.max) for one in known)
    return (since is None or last >= since) and (until is None or first < until)


def _inside(table: pa.Table, times: Times, versions: Sequence[int]) -> np.ndarray:
    inside: Any = pa.scalar(True)
    for bound, compare in zip(times, (pc.greater_equal, pc.less), strict=True):
        if bound is not None:
            limit = pa.scalar(utc(bound), table[SERVED_AT].type)
            inside = pc.and_(inside, compare(table[SERVED_AT], limit))
    if versions:
        among = pc.is_in(table[VERSION], value_set=pa.array(versions, table[VERSION].type))
        inside = pc.and_(inside, among)
    if isinstance(inside, pa.Scalar):
        return np.ones(table.num_rows, bool)
    return inside.to_numpy()


def _is_absent(column: pa.Array) -> np.ndarray:
    absent = is_missing(column)
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        absent = absent | (pc.fill_null(pc.list_value_length(column), 0).to_numpy(False) == 0)
    return absent
