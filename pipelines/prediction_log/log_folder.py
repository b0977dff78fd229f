"""Reads the prediction log in small batches, while servers keep writing it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.common.errors import PipelineError
from pipelines.storage.filesystem import Storage, Where
from serving.state.errors import did_you_mean

COLUMNS = ("time", "request_id", "model", "version", "method", "signature", "log")
_AT_ONCE = 64  # calls: one may hold thousands of candidates


class LoggedCall(NamedTuple):
    """One logged call.

    `log` is a serialized `tensorflow.serving.PredictionLog`; `state` says in JSON how a store
    completed the request, and is empty if none did; `label` is that of the version, and is empty
    if the newest version answered or the request named a number. Older logs lack both.
    """

    time: datetime
    request_id: str
    model: str
    version: int
    method: str
    signature: str
    log: bytes
    state: str = ""
    label: str = ""


@dataclass(frozen=True)
class LogFolder:
    """The finished files of a log at the time of opening.

    Args:
        storage: The folder.
        files: Its Parquet files, relative to it, the oldest first.
    """

    storage: Storage
    files: tuple[str, ...]

    @classmethod
    def open(cls, where: Where) -> LogFolder:
        """Lists the files.

        Raises:
            PipelineError: There are no files, or they are not a prediction log.
        """
        storage = Storage.of(where)
        storage.check_exists("prediction log")
        try:
            folder = cls(storage, tuple(storage.files()))
        except PipelineError as error:
            raise PipelineError(
                f"{error} A server writes a file of its log five minutes after the first request "
                "of it, and when it stops."
            ) from None
        for relative in folder.files[:1]:
            with _opened(storage, relative) as file:
                missing = sorted(set(COLUMNS) - set(file.schema_arrow.names))
            if missing:
                raise PipelineError(
                    f"{storage.file_name(relative)} is not a file of a prediction log: it has no "
                    f"column {missing[0]!r}. Expected the columns {', '.join(COLUMNS)}."
                )
        return folder

    def entries(
        self,
        model: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Iterator[LoggedCall]:
        """Calls in the order of the files.

        Args:
            model: Only calls of this model.
            since, until: Only calls in this time, the end excluded.
        """
        for batch in self.batches([*COLUMNS, "state", "label"], since, until):
            of_model = batch if model is None else batch.filter(pc.equal(batch["model"], model))
            for values in of_model.to_pylist():
                yield LoggedCall(**values)

    def choose_model(self, name: str | None, usual: str | None = None) -> str:
        """The given model name, or the only one of the log, or the usual one.

        Raises:
            PipelineError: The log has no such model, or several and no name was given.
        """
        calls: Counter[str] = Counter()
        for batch in self.batches(["time", "model"]):
            calls.update(batch["model"].to_pylist())
        models = sorted(calls)
        if name is None and len(models) == 1:
            return models[0]
        if name is None and usual in calls:
            name = usual
        if name is None:
            raise PipelineError(
                f"{self.storage.name} has calls of {len(models)} models"
                f"{': ' + ', '.join(models) + '. Choose one with --model' if models else ''}."
            )
        if name not in calls:
            raise PipelineError(
                f"{self.storage.name} has no call of the model {name!r}."
                f"{did_you_mean(name, models)} Models: {', '.join(models) or 'none'}."
            )
        return name

    def batches(
        self, columns: list[str], since: datetime | None = None, until: datetime | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Columns of the calls, a few calls at a time; those that a file lacks are left out."""
        for relative in self.files:
            try:
                with _opened(self.storage, relative) as file:
                    groups = [
                        number
                        for number in range(file.num_row_groups)
                        if _overlaps(file.metadata.row_group(number), since, until)
                    ]
                    for batch in file.iter_batches(_AT_ONCE, groups, columns):
                        yield _within(batch, since, until)
            except FileNotFoundError:
                continue  # a server has deleted its oldest file
            except (pa.ArrowException, OSError, KeyError) as error:
                raise PipelineError(
                    f"{self.storage.file_name(relative)} cannot be read: {error}. It is damaged; "
                    "remove it."
                ) from None


def as_utc(time: datetime | None) -> datetime | None:
    """Adds UTC to a time without a zone."""
    return time.replace(tzinfo=UTC) if time is not None and time.tzinfo is None else time


def _opened(storage: Storage, relative: str) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(storage.open(relative))
    except pa.ArrowException as error:
        raise PipelineError(
            f"{storage.file_name(relative)} is not a readable Parquet file: {error}."
        ) from None


def _overlaps(group: Any, since: datetime | None, until: datetime | None) -> bool:
    """Whether a row group may hold calls between the two times."""
    statistics = group.column(0).statistics
    if group.column(0).path_in_schema != "time" or statistics is None or not statistics.has_min_max:
        return True
    first, last = statistics.min, statistics.max
    return (since is None or last >= since) and (until is None or first < until)


def _within(
    batch: pa.RecordBatch, since: datetime | None, until: datetime | None
) -> pa.RecordBatch:
    kind = batch["time"].type
    if since is not None:
        batch = batch.filter(pc.greater_equal(batch["time"], pa.scalar(since, kind)))
    if until is not None:
        batch = batch.filter(pc.less(batch["time"], pa.scalar(until, kind)))
    return batch
