"""The notes of a group in a store: how new it is, and how far it has read each log."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from serving.state.definitions.group import Group
from serving.state.keyed.key_states import no_time
from serving.state.stores.store import Store

NEWEST = b"newest"  # time of the newest row, in the unit of the log's times
LOADED = b"loaded"  # there once a whole state was loaded
FOLLOWED = b"followed"  # seconds since 1970 when a follower had last read all of its log
LOADING = b"loading"  # differs after each load; the places below belong to it
_PLACE = b"place"


@dataclass(frozen=True)
class Notes:
    """What a store says of a group.

    Attributes:
        group: The group.
        of: Values by name.
    """

    group: Group
    of: dict[bytes, bytes]

    @classmethod
    def read(cls, store: Store, group: Group) -> Notes:
        """Reads them, in one round trip."""
        start = len(group.fingerprint)
        return cls(group, {k[start:]: v for k, v in store.notes(group.fingerprint).items()})

    @property
    def newest(self) -> int | float:
        """The time of the newest row."""
        note = self.of.get(NEWEST)
        if note is None:
            return no_time(self.group)
        return float(note) if self.group.has_float_times else int(note)

    @property
    def loading(self) -> bytes:
        """Differs after each load."""
        return self.of.get(LOADING, b"")

    def place(self, log: int) -> int | None:
        """The last place that was read of a log; None: none since the last load."""
        note = self.of.get(self._place(log))
        return None if note is None else int(note)

    def at_newest(self, time: int | float) -> dict[bytes, bytes]:
        """The note of the newest row."""
        return self.named({NEWEST: repr(time).encode()})

    def at_place(self, log: int, place: int) -> dict[bytes, bytes]:
        """The note of the last place that was read of a log."""
        return self.named({self._place(log): str(place).encode()})

    def named(self, notes: dict[bytes, bytes]) -> dict[bytes, bytes]:
        """Notes under the names that the store has for this group."""
        return {self.group.fingerprint + name: value for name, value in notes.items()}

    def _place(self, log: int) -> bytes:
        return _PLACE + self.loading + struct.pack(">q", log)
