"""Whether a store has a state, and how far it is behind its log."""

from __future__ import annotations

import time

from serving.state.definitions.definition import StateDefinition
from serving.state.online.notes import FOLLOWED, LOADED
from serving.state.stores.store import Store

_SECONDS = 1.0  # between two looks at the store


class Freshness:
    """What the notes of a store say of one state.

    Args:
        store: The store.
        definition: The features.
    """

    def __init__(self, store: Store, definition: StateDefinition) -> None:
        self._store = store
        self._groups, self._stored = definition.groups, definition.stored
        self._read_at = -_SECONDS
        self._followed: float | None = None

    def absent_groups(self) -> list[tuple[str, ...]]:
        """The columns of the keys of groups, users or items that were never loaded."""
        absent = [
            group.by for group in self._stored if not self._store.notes(group.fingerprint + LOADED)
        ]
        return list(dict.fromkeys(absent))

    def lag_seconds(self) -> float | None:
        """Seconds since a follower had read all of its log; None if nothing follows one.

        Static features have no log: alone, they are never behind. The store is asked at
        most once a second.
        """
        if not self._groups:
            return 0.0
        now = time.monotonic()
        if now - self._read_at >= _SECONDS:
            self._read_at = now
            notes = [self._note(group.fingerprint + FOLLOWED) for group in self._groups]
            times = [float(note) for note in notes if note is not None]
            self._followed = min(times) if len(times) == len(self._groups) else None
        return None if self._followed is None else max(0.0, time.time() - self._followed)

    def _note(self, name: bytes) -> bytes | None:
        return self._store.notes(name).get(name)
