"""Parquet files that appear whole, one after another, and together stay within a bound."""

from __future__ import annotations

import contextlib
import fcntl
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
    ]
)
_WITH_STATISTICS = ["time", "model", "version"]  # what a reader skips row groups by
_ROW_GROUP_BYTES = 4 * 2**20
_ROW_GROUP_ROWS = 4096
_NAME = re.compile(r"\d{8}T\d{6}\.\d{6}Z-.*\.parquet")
_STALE_SECONDS = 60.0  # an unfinished file that is younger may be about to be locked


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


class LogFiles:
    """Appends rows to one file after another. For one thread; a folder may have several writers.

    A file is written under a hidden name and renamed when it is whole. The oldest files of the
    folder, whoever wrote them, are deleted once all together are larger than `max_total_bytes`.

    Args:
        folder: Where the files are; it is made where it is not there.
        max_rows: Rows of a file.
        max_bytes: Size of a file; a single larger row has a file of its own.
        max_seconds: Time from a file's first row until it is finished.
        max_total_bytes: Size of all finished files together.
    """

    def __init__(
        self, folder: Path, max_rows: int, max_bytes: int, max_seconds: float, max_total_bytes: int
    ) -> None:
        self._folder = folder
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._max_seconds = max_seconds
        self._max_total_bytes = max_total_bytes
        self._file: _File | None = None
        self._received = 0
        self.files = 0  # begun
        self.written = 0  # rows in finished files
        self.lost = 0  # rows that are in no file
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def seconds_left(self) -> float | None:
        """Time until `finish` is due; None where no file is begun."""
        if self._file is None:
            return None
        return max(0.0, self._file.begun + self._max_seconds - time.monotonic())

    def append(self, row: Row) -> None:
        """Adds a row, in a new file where the present one is full or old enough.

        Raises:
            OSError: The disk did not take it. Call `abandon`; the next row begins a new file.
        """
        self._received += 1
        file = self._file
        if file is not None and (
            file.rows >= self._max_rows
            or file.bytes + len(row.log) > self._max_bytes
            or not self.seconds_left
        ):
            self.finish()
        if self._file is None:
            self._remove_stale()
            self._file = _File(self._folder, self.files)
            self.files += 1
        self._file.append(row)

    def finish(self) -> None:
        """Makes the present file, if there is one, readable under its own name."""
        if self._file is None:
            return
        self._file.finish()
        self.written += self._file.rows
        self._file = None
        self._remove_oldest()

    def abandon(self) -> None:
        """Gives the present file up after an error, so that the next row begins a new one."""
        if self._file is not None:
            self._file.abandon()
            self._file = None
        self.lost = self._received - self.written

    def _remove_oldest(self) -> None:
        found = sorted(path for path in self._folder.iterdir() if _NAME.fullmatch(path.name))
        sizes = {path: _size(path) for path in found}
        excess = sum(sizes.values()) - self._max_total_bytes
        for path in found:  # a name begins with its time, so the oldest is the first
            if excess <= 0:
                break
            path.unlink(missing_ok=True)  # another writer may be doing the same
            excess -= sizes[path]

    def _remove_stale(self) -> None:
        """Removes what killed processes did not finish: the system has taken back their locks."""
        for path in self._folder.glob(".*.parquet.tmp"):
            with contextlib.suppress(OSError), path.open("rb") as file:
                if time.time() - os.fstat(file.fileno()).st_mtime > _STALE_SECONDS:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    path.unlink()


class _File:
    """One unfinished file, locked as long as its process lives."""

    def __init__(self, folder: Path, number: int) -> None:
        host = re.sub(r"[^\w.]", "_", socket.gethostname())
        now = datetime.now(UTC)
        name = f"{now:%Y%m%dT%H%M%S.%f}Z-{host}-{os.getpid()}-{number}.parquet"
        self._path, self._temporary = folder / name, folder / f".{name}.tmp"
        self._rows: list[Row] = []
        self._waiting = 0
        self.rows = 0
        self.begun = time.monotonic()
        self._sink = self._temporary.open("xb")
        with contextlib.suppress(OSError):  # a filesystem without locks: nothing is stale there
            fcntl.flock(self._sink, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._writer = pq.ParquetWriter(
            self._sink, SCHEMA, compression="zstd", write_statistics=_WITH_STATISTICS
        )

    @property
    def bytes(self) -> int:
        """Size on the disk, and of what waits for it."""
        return self._sink.tell() + self._waiting

    def append(self, row: Row) -> None:
        self._rows.append(row)
        self._waiting += len(row.log)
        self.rows += 1
        if self._waiting >= _ROW_GROUP_BYTES or len(self._rows) >= _ROW_GROUP_ROWS:
            self._write()

    def finish(self) -> None:
        self._write()
        self._writer.close()
        self._sink.flush()
        os.fsync(self._sink.fileno())
        self._temporary.rename(self._path)  # before the lock is given up
        self._sink.close()

    def abandon(self) -> None:
        with contextlib.suppress(Exception):
            self._writer.close()
        self._writer.is_open = False  # else it tries once more when it is collected
        with contextlib.suppress(OSError):
            self._sink.close()
        with contextlib.suppress(OSError):
            self._temporary.unlink()

    def _write(self) -> None:
        if not self._rows:
            return
        columns = zip(*self._rows, strict=True)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=SCHEMA))
        self._rows, self._waiting = [], 0


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
