"""The interface of a store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from serving.state.keyed.keys import Key


class Cell(NamedTuple):
    """The place of a key's state.

    Attributes:
        group: Fingerprint of the group's definition.
        key: Bytes of each column of `by`; the first is the owner.
    """

    group: bytes
    key: Key


class SeenId(NamedTuple):
    """An event id that a cell has seen.

    Attributes:
        cell: The cell.
        event: Bucket (8 bytes), time and id of the event. Ids of one bucket go together.
    """

    cell: Cell
    event: bytes


class Change(NamedTuple):
    """A new state of a cell.

    Attributes:
        cell: The cell.
        before: The blob that was read; None: there was none.
        after: The new blob; None removes it.
        ids: Event ids with the features that have counted them, as bits.
    """

    cell: Cell
    before: bytes | None
    after: bytes | None
    ids: Mapping[bytes, int]


class StoreUnavailable(Exception):
    """The error for a store that does not answer, or not in time."""


class Store(Protocol):
    """Blobs by cell. Its methods may be called by several threads at once."""

    def read(self, cells: Sequence[Cell]) -> list[bytes | None]:
        """The blob of each cell, in one round trip where the store has one."""

    def read_ids(self, ids: Sequence[SeenId]) -> list[int]:
        """The bits of each event id; 0 if the cell has not seen it."""

    def write(
        self,
        changes: Sequence[Change],
        notes: Mapping[bytes, bytes],
        expire: int | None = None,
    ) -> list[bool]:
        """Makes each change if the cell still holds `before`; says which were made.

        Args:
            changes: Of different cells. A change is made whole or not at all.
            notes: Notes to write after them, by name, if all changes were made.
            expire: Seconds after which the ids may go; None: not before `forget_ids`.
        """

    def load(
        self, cells: Sequence[Cell], blobs: Sequence[bytes], notes: Mapping[bytes, bytes]
    ) -> None:
        """Writes many cells anew, whatever they hold."""

    def load_ids(
        self, ids: Sequence[SeenId], bits: Sequence[int], expire: int | None = None
    ) -> None:
        """Writes event ids anew; `expire` as of `write`."""

    def notes(self, prefix: bytes) -> dict[bytes, bytes]:
        """The notes whose names begin so."""

    def cells(self, group: bytes) -> Iterator[tuple[Key, bytes]]:
        """All keys of a group with their blobs, as they are at some time during the walk.

        Of keys that are written meanwhile, one may be absent, or come twice.
        """

    def forget_ids(self, group: bytes, before: bytes) -> None:
        """Removes the event ids of the buckets before one."""

    def within(self, timeout: float) -> Store:
        """The same store for requests, which wait for its answers no longer than some seconds."""

    def size(self) -> int:
        """Bytes that the store uses."""

    def close(self) -> None:
        """Ends the use of the store."""
