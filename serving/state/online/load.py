"""Loads a saved state into a store: what `ingest` knew, before events follow."""

from __future__ import annotations

from collections.abc import Callable

from serving.state.online.notes import LOADED, NEWEST
from serving.state.saved import SavedState
from serving.state.stores.store import Cell, SeenId, Store


def load_state(
    saved: SavedState, store: Store, progress: Callable[[int], object] | None = None
) -> int:
    """Writes all keys and users of a state; returns how many.

    Args:
        saved: The state.
        store: The store; what it holds of equal definitions is replaced.
        progress: Called with the number of keys of each part.
    """
    keys = 0
    for group in saved.definition.stored:
        notes = {}
        if saved.newest is not None:
            notes[group.fingerprint + NEWEST] = repr(saved.newest).encode()
        for part, blobs in saved.blobs(group):
            store.load([Cell(group.fingerprint, key) for key in part], blobs, notes)
            keys += len(part)
            if progress is not None:
                progress(len(part))
        for events, bits in saved.ids(group):
            seen = [SeenId(Cell(group.fingerprint, key), event) for key, event in events]
            store.load_ids(seen, bits, saved.definition.expire_ids)
        store.load([], [], {group.fingerprint + LOADED: b"1"})
    return keys
