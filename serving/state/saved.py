"""A state in a folder, as `ingest` writes it: the definition, and a blob for each key."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from serving.state.definitions.definition import StateDefinition, Stored
from serving.state.definitions.group import Group
from serving.state.definitions.static_features import StaticFeatures
from serving.state.errors import DataError
from serving.state.keyed.blobs import decode, encode
from serving.state.keyed.key_states import KeyStates
from serving.state.keyed.keys import Key, column_keys
from serving.state.keyed.profiles import encode_profiles

DEFINITION = "state.json"
_TAIL = 1 << 16  # bytes of a file, with the sizes of all its parts
_SCHEMA = pa.schema({"key": pa.list_(pa.binary()), "blob": pa.binary()})
_IDS = pa.schema({"key": pa.list_(pa.binary()), "event": pa.binary(), "bits": pa.int64()})


class SavedWriter:
    """Writes a state into a new folder; a context manager.

    Args:
        folder: The folder to make.
        definition: The features.
        newest: Time of the newest row; None: there was none.
        files: Names and sizes of the files of the log.
    """

    def __init__(
        self,
        folder: Path,
        definition: StateDefinition,
        newest: int | float | None,
        files: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self._folder = folder
        self._files: dict[bytes, pq.ParquetWriter] = {}
        self._open = ExitStack()
        folder.mkdir(parents=True, exist_ok=True)
        content = {**definition.to_dict(), "newest": newest, "files": dict(files)}
        text = json.dumps(content, indent=2) + "\n"
        (folder / DEFINITION).write_text(text, encoding="utf-8")

    def write(self, group: Group, keys: Sequence[Key], states: KeyStates) -> None:
        """Adds some keys of a group."""
        self._write(group, keys, encode(states))

    def write_profiles(self, static: StaticFeatures, rows: pa.Table, time: int) -> None:
        """Adds some users or items.

        Args:
            static: Their features.
            rows: The columns of the definition.
            time: Microseconds since 1970 when their table was written.
        """
        keys = [(key,) for key in column_keys(rows[static.key].combine_chunks())]
        self._write(static, keys, encode_profiles(static, rows, [time] * len(keys)))

    def write_ids(self, group: Group, ids: Mapping[tuple[Key, bytes], int]) -> None:
        """Writes which features, as bits, have counted each event that may arrive again."""
        if ids:
            columns = [[list(key) for key, _ in ids], [event for _, event in ids], [*ids.values()]]
            pq.write_table(pa.table(columns, schema=_IDS), _path(self._folder, group, ".ids"))

    def _write(self, group: Stored, keys: Sequence[Key], blobs: Sequence[bytes]) -> None:
        if group.fingerprint not in self._files:
            path = _path(self._folder, group)
            file = pq.ParquetWriter(path, _SCHEMA, compression="zstd")
            self._files[group.fingerprint] = self._open.enter_context(file)
        table = pa.table([list(map(list, keys)), blobs], schema=_SCHEMA)
        self._files[group.fingerprint].write_table(table)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open.close()


@dataclass(frozen=True)
class SavedState:
    """A state that `SavedWriter` has written.

    Attributes:
        folder: The folder: `data/state` of a run, or `assets.extra/state` of an export.
        definition: The features.
        newest: Time of the newest row; None: there was none.
        files: Names and sizes of the files of the log.
    """

    folder: Path
    definition: StateDefinition
    newest: int | float | None
    files: Mapping[str, int]

    @classmethod
    def open(cls, folder: Path) -> SavedState:
        """Reads the definition.

        Raises:
            DataError: The folder holds no state, or one of another version.
        """
        path = folder / DEFINITION
        try:
            content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise DataError(
                f"{folder} holds no state: {DEFINITION} is missing. `recsys-attn ingest` writes "
                "one if the experiment has `data.aggregates`, `data.histories` or `data.users`."
            ) from None
        except ValueError as error:
            raise DataError(f"{path} is damaged: {error}. Make it again with `ingest`.") from None
        definition = StateDefinition.from_dict(content, str(path))
        return cls(folder, definition, content["newest"], content["files"])

    def keys(self, group: Stored) -> int:
        """How many keys there are of a group, or how many users or items."""
        return int(pq.ParquetFile(_path(self.folder, group)).metadata.num_rows)

    def hash_of(self, group: Stored) -> str:
        """A text that is equal for equal states of a group: of the end of its file."""
        with _path(self.folder, group).open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
            return hashlib.blake2b(file.read(), digest_size=16).hexdigest()

    def blobs(self, group: Stored, first: int = 0) -> Iterator[tuple[list[Key], list[bytes]]]:
        """The keys and blobs of a group, or of users or items, in parts from one on."""
        with pq.ParquetFile(_path(self.folder, group)) as file:
            for number in range(first, file.num_row_groups):
                part = file.read_row_group(number)
                yield list(map(tuple, part["key"].to_pylist())), part["blob"].to_pylist()

    def states(self, group: Group) -> tuple[list[Key], KeyStates]:
        """All keys of a group and their states."""
        keys: list[Key] = []
        parts: list[KeyStates] = []
        for of_part, blobs in self.blobs(group):
            keys += of_part
            parts.append(decode(group, blobs))
        return keys, KeyStates.joined(group, parts)

    def ids(self, group: Stored) -> Iterator[tuple[list[tuple[Key, bytes]], list[int]]]:
        """The events that may arrive again and the features that have counted them, in parts."""
        path = _path(self.folder, group, ".ids")
        if path.exists():
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches():
                    keys = map(tuple, batch["key"].to_pylist())
                    events = list(zip(keys, batch["event"].to_pylist(), strict=True))
                    yield events, batch["bits"].to_pylist()


def _path(folder: Path, group: Stored, kind: str = "") -> Path:
    return folder / f"{group.fingerprint.hex()}{kind}.parquet"
