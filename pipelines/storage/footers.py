"""The footers of a split's files, read once: row groups, sizes, a fingerprint."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.common.errors import PipelineError
from pipelines.storage.columns import check_names
from pipelines.storage.common_types import CommonTypes
from pipelines.storage.filesystem import Storage
from pipelines.storage.partitions import partition_types, partition_values
from recsys_attn.schema import Feature
from serving.state.errors import require_column

_AT_ONCE = 16  # files read in parallel, as remote filesystems have high latency
_NO_FEATURES: Mapping[str, Feature] = MappingProxyType({})


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
        schemas, schema: The distinct schemas of the files, with the columns that their folders
            give, and the number of each file's.
        types: The columns, each with its type over all files that have rows.
        file, index, rows, first_row: Of each row group that has rows: number of its file, its
            number in the file, its rows and the number of its first row in the file.
    """

    storage: Storage
    names: pa.Array
    sizes: np.ndarray
    modified: np.ndarray
    digests: pa.Array
    schemas: tuple[pa.Schema, ...]
    schema: np.ndarray
    types: CommonTypes
    file: np.ndarray
    index: np.ndarray
    rows: np.ndarray
    first_row: np.ndarray

    @classmethod
    def read(cls, storage: Storage, features: Mapping[str, Feature] = _NO_FEATURES) -> Footers:
        """Reads the footer of every file.

        Args:
            storage: The file or folder.
            features: By column, the features whose types columns take where files differ.
        """
        names = storage.files()
        partitions = partition_types(names, features)
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            sizes, modified, digests, groups, numbers = [], [], [], [], []
            schemas: list[pa.Schema] = []
            first_with_rows: dict[int, str] = {}
            for number, file in enumerate(threads.map(lambda n: _read(storage, n), names)):
                sizes.append(file.size)
                modified.append(file.modified)
                digests.append(file.digest)
                groups.append(_row_groups(number, file.rows))
                schema = _add_folder_columns(file.schema, names[number], partitions)
                numbers.append(_number(schema, schemas))
                if file.rows.any():
                    first_with_rows.setdefault(numbers[-1], storage.file_name(names[number]))
        together = np.concatenate(groups, axis=1)
        of_rows = [(name, schemas[number]) for number, name in first_with_rows.items()]
        return cls(
            storage,
            pa.array(names),
            np.array(sizes),
            np.array(modified),
            pa.array(digests),
            tuple(schemas),
            np.array(numbers),
            CommonTypes.of(of_rows or [(storage.name, schema_) for schema_ in schemas], features),
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

    def check_columns(self, names: Sequence[str]) -> None:
        """Raises an error if a file lacks one of the columns, or their types do not fit together.

        Args:
            names: The columns, of which each is in some file.
        """
        self.types.check(names)
        numbers, firsts = np.unique(self.schema[self.file], return_index=True)
        for number, file in zip(numbers, self.file[firsts], strict=True):
            for name in names:
                known = self.schemas[number].names
                require_column(known, name, "in other files", self.file_name(file))

    def check_unchanged(self, number: int) -> None:
        """Raises an error if a file has changed since its footer was read."""
        relative = self.names[number].as_py()
        size, modified = self.storage.state(relative)
        if size == self.sizes[number] and modified == self.modified[number]:
            return
        name = self.file_name(number)
        if size < 0:
            raise PipelineError(f"{name} was removed while this step ran. Put it back.")
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
            check_names(schema.names, name)
    except (pa.ArrowException, OSError) as error:
        raise PipelineError(
            f"{name}: is not a complete Parquet file ({error}); write or copy it again."
        ) from None
    return _Footer(size, modified, digest, np.array(rows, np.int64), schema)


def _number(schema: pa.Schema, schemas: list[pa.Schema]) -> int:
    """The number of a schema among the distinct ones, to which it is added."""
    for number, other in enumerate(schemas):
        if schema.equals(other):
            return number
    schemas.append(schema)
    return len(schemas) - 1


def _add_folder_columns(
    schema: pa.Schema, relative: str, partitions: Mapping[str, pa.DataType]
) -> pa.Schema:
    """Adds the columns that a file's folders give, unless the file itself has them."""
    for name in partition_values(relative):
        if name not in schema.names:
            schema = schema.append(pa.field(name, partitions[name]))
    return schema


def _row_groups(file: int, rows: np.ndarray) -> np.ndarray:
    """File, index, rows and first row of each row group, `(4, row groups)`."""
    count = len(rows)
    return np.stack([np.full(count, file), np.arange(count), rows, np.cumsum(rows) - rows])
