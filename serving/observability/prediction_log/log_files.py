"""Parquet files of a bounded total size, each of which appears whole."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA = pa.schema(
    [
        pa.field("time", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("request_id", pa.string(), nullable=False),
        pa.field("model", pa.string(), nullable=False),
        pa.field("version", pa.int64(), nullable=False),
        pa.field("method", pa.string(), nullable=False),
        pa.field("signature", pa.string(), nullable=False),
        pa.field("milliseconds", pa.float64(), nullable=False),
        pa.field("log", pa.binary(), nullable=False),  # a serialized PredictionLog
        pa.field("trace_id", pa.string(), nullable=False),  # empty without a trace
        pa.field("state", pa.string(), nullable=False),  # JSON of `StateOfRequest`, or empty
        pa.field("label", pa.string(), nullable=False),  # by which the version was chosen, or empty
    ]
)
_WITH_STATISTICS = ["time", "model", "version"]  # by which readers skip row groups
_ROW_GROUP_ROWS = 4096
_NAME = re.compile(r"\d{8}T\d{6}\.\d{6}Z-.*\.parquet")
_STALE_SECONDS = 3600.0  # age of a temporary file that its process no longer writes


class Row(NamedTuple):
    """One row: the columns of `SCHEMA`, the time in microseconds since 1970."""

    time: int
    request_id: str
    model: str
    version: int
    method: str
    signature: str
    milliseconds: float
    log: bytes
    trace_id: str = ""
    state: str = ""
    label: str = ""


class LogFiles:
    """Collects rows in memory and writes them file by file.

    It is for one thread; several writers may share a folder. A file is written under a hidden name
    and renamed when it is whole, so a killed process loses the rows in memory alone. The oldest
    files of the folder are deleted when all together exceed `max_total_bytes`.

    Args:
        folder: Folder of the files; created if it does not exist.
        max_total_bytes: Size of all files together.
        max_rows: Rows of a file.
        max_bytes: Bytes of the rows of a file before compression, which wait in memory.
        max_seconds: Time from the first row of a file until it is written.

    Raises:
        OSError: The folder cannot be created.
    """

    def __init__(
        self,
        folder: Path,
        max_total_bytes: int = 2**30,
        max_rows: int = 100_000,
        max_bytes: int = 32 * 2**20,
        max_seconds: float = 300.0,
    ) -> None:
        self._folder = folder
        self._max_rows = max_rows
        self._max_bytes = min(max_bytes, -(-max_total_bytes // 4))
        self._max_seconds = max_seconds
        self._max_total_bytes = max_total_bytes
        self._rows: list[Row] = []
        self._bytes = 0
        self._begun = 0.0
        self._files = 0
        self.written = 0  # rows in files
        self.lost = 0  # rows that could not be written
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def seconds_left(self) -> float | None:
        """Time until `finish` is due; None without rows."""
        if not self._rows:
            return None
        return max(0.0, self._begun + self._max_seconds - time.monotonic())

    def append(self, row: Row) -> None:
        """Adds a row. If it does not fit into the present file, the file is written first.

        Raises:
            OSError: The file could not be written; its rows are lost, the new row is not.
        """
        is_full = (
            len(self._rows) >= self._max_rows
            or self._bytes + len(row.log) > self._max_bytes
            or self.seconds_left == 0
        )
        try:
            if is_full:
                self.finish()
        finally:
            if not self._rows:
                self._begun = time.monotonic()
            self._rows.append(row)
            self._bytes += len(row.log)

    def finish(self) -> None:
        """Writes the rows in memory to a file of their own.

        Raises:
            OSError: The file could not be written; its rows are lost.
        """
        rows, self._rows, self._bytes = self._rows, [], 0
        if not rows:
            return
        host = re.sub(r"[^\w.]", "_", socket.gethostname())
        now = datetime.now(UTC)
        name = f"{now:%Y%m%dT%H%M%S.%f}Z-{host}-{os.getpid()}-{self._files}.parquet"
        self._files += 1
        temporary = self._folder / f".{name}.tmp"
        try:
            columns = zip(*rows, strict=True)
            arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
            table = pa.Table.from_arrays(arrays, schema=SCHEMA)
            with temporary.open("xb") as sink:
                pq.write_table(
                    table, sink, _ROW_GROUP_ROWS,
                    compression="zstd", write_statistics=_WITH_STATISTICS,
                )  # fmt: skip
                sink.flush()
                os.fsync(sink.fileno())
            temporary.rename(self._folder / name)
        except BaseException:
            self.lost += len(rows)
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
        self.written += len(rows)
        self._delete_stale()
        self._delete_oldest()

    def _delete_oldest(self) -> None:
        paths = sorted(path for path in self._folder.iterdir() if _NAME.fullmatch(path.name))
        sizes = {path: _size(path) for path in paths}
        excess = sum(sizes.values()) - self._max_total_bytes
        for path in paths:  # a name begins with its time, so the oldest is the first
            if excess <= 0:
                break
            path.unlink(missing_ok=True)  # another writer may delete it too
            excess -= sizes[path]

    def _delete_stale(self) -> None:
        """Deletes the temporary files of killed processes."""
        for path in self._folder.glob(".*.parquet.tmp"):
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > _STALE_SECONDS:
                    path.unlink()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
