"""Loads a saved state into a store: what `ingest` knew, before events follow."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace

from serving.state.definitions.definition import Stored
from serving.state.definitions.group import Group
from serving.state.errors import DataError
from serving.state.online.notes import LOADED, LOADING, NEWEST, Notes
from serving.state.online.profiles import load_profiles
from serving.state.saved import SavedState
from serving.state.stores.store import Cell, SeenId, Store

_ALL = b"\xff" * 8  # after all buckets of event ids
_LOAD = b"load"  # before the fingerprint of a group: how far its load is


@dataclass(frozen=True)
class Loaded:
    """How much of a saved state a store holds of one group.

    Attributes:
        source: Equal for equal saved states.
        parts: How many parts of its file are in the store.
        done: Whether all of it is.
        newest: Time of the newest row of the state; None: there was none.
        files: Names and sizes of the files whose rows are in it.
    """

    source: str
    parts: int
    done: bool
    newest: int | float | None
    files: Mapping[str, int]

    @classmethod
    def read(cls, store: Store, group: Stored) -> Loaded | None:
        """What a store holds; None: nothing was loaded."""
        name = _LOAD + group.fingerprint
        note = store.notes(name).get(name)
        return None if note is None else cls(**json.loads(note))

    def note(self, group: Stored) -> dict[bytes, bytes]:
        """This, as a note."""
        return {_LOAD + group.fingerprint: json.dumps(asdict(self)).encode()}


def load_state(
    saved: SavedState,
    store: Store,
    progress: Callable[[int], object] | None = None,
    force: bool = False,
) -> int:
    """Writes all keys, users and items of a state; returns how many.

    A load that was interrupted goes on where it was. Features over time that the store holds from
    another load, and that are as new as the state or newer, stay as they are. So do the static
    features of each user or item that are newer than the table of the state.

    Args:
        saved: The state.
        store: The store.
        progress: Called with the number of keys of each part.
        force: Replaces what the store holds. Set it where the store has lost events, or where
            pushed static features are wrong.
    """
    written = 0
    for group in saved.definition.stored:
        before = Loaded.read(store, group)
        is_same = before is not None and before.source == saved.hash_of(group)
        is_done = before is not None and before.done and not force
        if is_done and (is_same or _is_newer(store, group, saved)):
            continue
        if before is None or before.done or not is_same:
            before = Loaded(saved.hash_of(group), 0, False, saved.newest, saved.files)
            begun = before.note(group) | {group.fingerprint + LOADING: os.urandom(8)}
            if saved.newest is not None:
                begun[group.fingerprint + NEWEST] = repr(saved.newest).encode()
            store.load([], [], begun)
        if before.parts == 0:  # of events that are read again, none may be known
            store.forget_ids(group.fingerprint, _ALL)
        written += _load_rest(saved, store, group, before, progress, force)
    return written


def _is_newer(store: Store, group: Stored, saved: SavedState) -> bool:
    """Whether a store has all rows of a group that a state has."""
    if not isinstance(group, Group) or saved.newest is None:
        return False
    return Notes.read(store, group).newest >= saved.newest


def check_loaded(store: Store, saved: SavedState, command: str) -> dict[bytes, Loaded]:
    """What a store holds of each group, of the users and of the items, by fingerprint.

    Args:
        store: The store.
        saved: The state that was to be loaded.
        command: The command that loads it, for errors.

    Raises:
        DataError: A group was not loaded, or half of it.
    """
    of_groups = {}
    for group in saved.definition.stored:
        loaded = Loaded.read(store, group)
        if loaded is None or not loaded.done:
            what = "nothing" if loaded is None else "half"
            raise DataError(
                f"The store holds {what} of the state {saved.folder}. Load it first, or to the "
                f"end: `{command}`."
            )
        of_groups[group.fingerprint] = loaded
    return of_groups


def _load_rest(
    saved: SavedState,
    store: Store,
    group: Stored,
    loaded: Loaded,
    progress: Callable[[int], object] | None,
    force: bool,
) -> int:
    written, parts = 0, loaded.parts
    for part, blobs in saved.blobs(group, loaded.parts):
        parts += 1
        note = replace(loaded, parts=parts).note(group)
        cells = [Cell(group.fingerprint, key) for key in part]
        if isinstance(group, Group) or force:
            store.load(cells, blobs, note)
            written += len(part)
        else:
            written += load_profiles(store, cells, blobs)
            store.load([], [], note)
        if progress is not None:
            progress(len(part))
    for events, bits in saved.ids(group):
        seen = [SeenId(Cell(group.fingerprint, key), event) for key, event in events]
        store.load_ids(seen, bits, saved.definition.expire_ids)
    done = replace(loaded, parts=parts, done=True).note(group)
    store.load([], [], done | {group.fingerprint + LOADED: b"1"})
    return written
