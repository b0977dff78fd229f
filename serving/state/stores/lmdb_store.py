"""A store in a folder: LMDB, with one writing process at a time and many reading ones."""

from __future__ import annotations

import contextlib
import itertools
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import lmdb

from serving.state.errors import DataError
from serving.state.keyed.keys import Key, hash_of, split_key
from serving.state.stores.store import Cell, Change, SeenId, StoreUnavailable

_MAP = 1 << 40  # address space, not memory nor disk: the file grows as it fills
_BLOBS, _IDS, _NOTES = b"b", b"i", b"n"
_READERS = 1024
_PART = 10_000  # ids of one transaction


class LmdbStore:
    """Blobs in a folder of this machine.

    What `write` has done is on disk when it returns, all or nothing. A reader sees the store as it
    was when its read began.

    Args:
        folder: The folder; it is made if it does not exist.
        writes: Whether this process may write.

    Raises:
        DataError: The folder cannot be opened.
    """

    def __init__(self, folder: Path, writes: bool = True) -> None:
        if not writes and not (folder / "data.mdb").is_file():
            raise DataError(
                f"{folder} holds no state. Make it with `recsys-attn state load RUN --store "
                f"lmdb:{folder}`."
            )
        try:
            if writes:
                folder.mkdir(parents=True, exist_ok=True)
            self._env = lmdb.open(
                str(folder),
                map_size=_MAP,
                readonly=not writes,
                max_readers=_READERS,
                readahead=False,  # reads are of single keys
            )
        except (lmdb.Error, OSError) as error:
            raise DataError(f"The store {folder} cannot be opened: {error}.") from None
        self._folder = folder

    def read(self, cells: Sequence[Cell]) -> list[bytes | None]:
        """As `Store`."""
        prefixes = {group: _BLOBS + group for group in {cell.group for cell in cells}}
        names = [prefixes[group] + b"".join(key) for group, key in cells]
        with self._env.begin() as of, of.cursor() as cursor:
            blobs = dict(cursor.getmulti(names))
        return [blobs.get(name) for name in names]

    def read_ids(self, ids: Sequence[SeenId]) -> list[int]:
        """As `Store`."""
        with self._env.begin() as of:
            return [_bits(of.get(_id(seen.cell, seen.event))) for seen in ids]

    def write(
        self,
        changes: Sequence[Change],
        notes: Mapping[bytes, bytes],
        expire: int | None = None,
    ) -> list[bool]:
        """As `Store`; here ids stay until `forget_ids`."""
        with self._writing() as of:
            made = [of.get(_blob(change.cell)) == change.before for change in changes]
            for change in itertools.compress(changes, made):
                if change.after is None:
                    of.delete(_blob(change.cell))
                else:
                    of.put(_blob(change.cell), change.after)
                for event, bits in change.ids.items():
                    of.put(_id(change.cell, event), struct.pack("<Q", bits))
            for name, value in notes.items() if all(made) else ():
                of.put(_NOTES + name, value)
        return made

    def load(
        self, cells: Sequence[Cell], blobs: Sequence[bytes], notes: Mapping[bytes, bytes]
    ) -> None:
        """As `Store`."""
        with self._writing() as of:
            rows = sorted((_blob(cell), blob) for cell, blob in zip(cells, blobs, strict=True))
            with of.cursor() as cursor:
                cursor.putmulti(rows)
            for name, value in notes.items():
                of.put(_NOTES + name, value)

    def load_ids(
        self, ids: Sequence[SeenId], bits: Sequence[int], expire: int | None = None
    ) -> None:
        """As `Store`."""
        with self._writing() as of:
            for seen, of_event in zip(ids, bits, strict=True):
                of.put(_id(seen.cell, seen.event), struct.pack("<Q", of_event))

    def notes(self, prefix: bytes) -> dict[bytes, bytes]:
        """As `Store`."""
        return {key[1:]: value for key, value in self._under(_NOTES + prefix)}

    def cells(self, group: bytes) -> Iterator[tuple[Key, bytes]]:
        """As `Store`."""
        for key, blob in self._under(_BLOBS + group):
            yield split_key(key[1 + len(group) :]), blob

    def forget_ids(self, group: bytes, before: bytes) -> None:
        """As `Store`."""
        prefix, is_old = _IDS + group, True
        while is_old:
            with self._writing() as of, of.cursor() as cursor:
                for _ in range(_PART):
                    is_old = cursor.set_range(prefix) and bytes(cursor.key()) < prefix + before
                    if not is_old:
                        break
                    cursor.delete()

    def within(self, timeout: float) -> LmdbStore:
        """As `Store`; a read of a file needs no timeout."""
        return self

    def size(self) -> int:
        """As `Store`."""
        return (self._folder / "data.mdb").stat().st_blocks * 512

    def close(self) -> None:
        """As `Store`."""
        self._env.close()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[lmdb.Transaction]:
        try:
            with self._env.begin(write=True) as of:
                yield of
        except (lmdb.MapFullError, lmdb.DiskError, OSError) as error:
            raise StoreUnavailable(f"The store {self._folder} is full: {error}.") from None
        except lmdb.Error as error:
            raise StoreUnavailable(
                f"The store {self._folder} cannot be written: {error}."
            ) from None

    def _under(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Keys that begin so, with their values."""
        with self._env.begin() as of, of.cursor() as cursor:
            if cursor.set_range(prefix):
                for key, value in cursor:
                    if not key.startswith(prefix):
                        return
                    yield key, value


def _blob(cell: Cell) -> bytes:
    return _BLOBS + cell.group + b"".join(cell.key)


def _id(cell: Cell, event: bytes) -> bytes:
    # The bucket and the time come first, so that old ids are next to each other.
    return _IDS + cell.group + event + hash_of(b"".join(cell.key))


def _bits(value: bytes | None) -> int:
    return 0 if value is None else int(struct.unpack("<Q", value)[0])
