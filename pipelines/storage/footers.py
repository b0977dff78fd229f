"""The footers of a split's files, read once: row groups, sizes, a fingerprint."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.common.errors import PipelineError
from pipelines.storage.filesystem import Storage

_AT_ONCE = 16  # files read in parallel, as remote filesystems have high latency


class _Footer(NamedTuple):
    size: int
    modified: int
    digest: str
    rows: np.ndarray
    schema: pa.Schema


@dataclass(frozen=True)
class Footers:
    """The files of a split and their row groups, as arrays: thousands of files stay small.

    Attributes:
        storage: The folder of the files.
        names: Relative names of the files.
        sizes, modified, digests: Of each file: bytes, time of the last change, and a hash of its
            footer.
        schemas: The distinct schemas of the files.
        file, index, rows, first_row: Of each row group that has rows: number of its file, its
            number in the file, its rows and the number of its first row in the file.
    """

    storage: Storage
    names: pa.Array
    sizes: np.ndarray
    modified: np.ndarray
    digests: pa.Array
    schemas: tuple[pa.Schema, ...]
    file: np.ndarray
    index: np.ndarray
    rows: np.ndarray
    first_row: np.ndarray

    @classmethod
    def read(cls, storage: Storage) -> Footers:
        """Reads the footer of every file."""
        names = storage.files()
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            sizes, modified, digests, groups = [], [], [], []
            schemas: list[pa.Schema] = []
            for number, file in enumerate(threads.map(lambda n: _read(storage, n), names)):
                sizes.append(file.size)
                modified.append(file.modified)
                digests.append(file.digest)
                groups.append(_row_groups(number, file.rows))
                if not any(file.schema.equals(other) for other in schemas):
                    schemas.append(file.schema)
        together = np.concatenate(groups, axis=1)
        return cls(
            storage,
            pa.array(names),
            np.array(sizes),
            np.array(modified),
            pa.array(digests),
            tuple(schemas),
            *together[:, together[2] > 0],  # some writers leave empty ones
        )

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def files(self) -> list[str]:
        """Names of the files for messages."""
        return [self.file_name(number) for number in range(len(self.names))]

    def file_name(self, number: int) -> str:
        """A file's name for messages."""
        return self.storage.file_name(self.names[int(number)].as_py())

    @property
    def fingerprint(self) -> dict[str, str]:
        """Size, rows and hash of the footer by file; equal for copies of the data."""
        rows = np.bincount(self.file, self.rows, len(self.names)).astype(int)
        parts = zip(self.names.to_pylist(), self.sizes, rows, self.digests.to_pylist(), strict=True)
        return {name: f"{size} bytes, {n} rows, {digest}" for name, size, n, digest in parts}

    def check_fingerprint(self, before: Mapping[str, str]) -> None:
        """Raises an error that names the first file that differs from `before`."""
        now = self.fingerprint
        for name in sorted(before.keys() | now.keys()):
            if before.get(name) != now.get(name):
                raise PipelineError(
                    f"{self.storage.file_name(name)} is not the file that training began with: "
                    f"expected {before.get(name, 'no such file')}, found "
                    f"{now.get(name, 'no such file')}. Put it back, or train again with --force."
                )

    def check_unchanged(self, number: int) -> None:
        """Raises an error if a file has changed since its footer was read."""
        relative = self.names[number].as_py()
        size, modified = self.storage.state(relative)
        if size == self.sizes[number] and modified == self.modified[number]:
            return
        name = self.file_name(number)
        if size < 0:
            raise PipelineError(f"{name} is gone since this step began. Put it back.")
        # A file that was only touched or copied over itself has not changed.
        if size != self.sizes[number] or (
            _read(self.storage, relative).digest != self.digests[number].as_py()
        ):
            raise PipelineError(
                f"{name} has changed since this step began: it had {self.sizes[number]} bytes, "
                f"now it has {size}. Start again, and leave the data alone until the end."
            )


def _read(storage: Storage, relative: str) -> _Footer:
    size, modified = storage.state(relative)
    name = storage.file_name(relative)
    try:
        with storage.open(relative) as source:
            metadata = pq.read_metadata(source)
            source.seek(size - 8)
            length = int.from_bytes(source.read(4), "little")
            source.seek(size - 8 - length)
            digest = hashlib.blake2b(source.read(length), digest_size=8).hexdigest()
            rows = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
            schema = metadata.schema.to_arrow_schema()
    except (pa.ArrowException, OSError) as error:
        raise PipelineError(f"{name} is not a readable Parquet file: {error}.") from None
    return _Footer(size, modified, digest, np.array(rows, np.int64), schema)


def _row_groups(file: int, rows: np.ndarray) -> np.ndarray:
    """File, index, rows and first row of each row group, `(4, row groups)`."""
    count = len(rows)
    return np.stack([np.full(count, file), np.arange(count), rows, np.cumsum(rows) - rows])
