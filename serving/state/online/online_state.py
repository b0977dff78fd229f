"""A state online, as one object: a store, and the features that it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from serving.state.online.clock import Clock
from serving.state.online.load import load_state
from serving.state.online.reader import Resolved, StateReader
from serving.state.online.writer import Added, StateWriter
from serving.state.saved import SavedState
from serving.state.stores.open_store import open_store


class OnlineState:
    """The features of a run, continued event by event.

    Their values are those that `ingest` gives a row, to the bit, if the events are the same. A
    value holds only events that are strictly earlier than its time, so that events may be pushed
    as soon as they are known. A label that arrives later than its row (a click, a purchase) is
    pushed when it arrives, with the time of the row.

    Args:
        url: Address of the store: `lmdb:FOLDER`, or `redis://HOST:PORT`.
        saved: Folder of the state that `ingest` wrote: `data/state` of a run, or
            `assets.extra/state` of an export.
        clock: The clock, if not that of this machine.

    Raises:
        DataError: The folder holds no state, or the store cannot be opened.

    Example:

        with OnlineState("lmdb:store", "runs/clicks/data/state") as state:
            state.load()
            state.push({"user_id": 7, "item_id": 11, "shown_at": now, "click": 1})
            state.values({"user_id": 7}, {"item_id": [11, 13]}).candidates["item_ctr"]
    """

    def __init__(self, url: str, saved: Path | str, clock: Clock | None = None) -> None:
        self._saved = SavedState.open(Path(saved))
        definition = self._saved.definition
        self._store = open_store(url)
        self._writer = StateWriter(self._store, definition, clock)
        self._reader = StateReader(self._store, definition, clock)

    def load(self) -> int:
        """Writes the saved state to the store; returns how many keys."""
        return load_state(self._saved, self._store)

    def push(self, *events: Mapping[str, Any]) -> Added:
        """Adds events; as `StateWriter.push`."""
        return self._writer.push(events)

    def push_users(self, *profiles: Mapping[str, Any]) -> None:
        """Replaces the static features of some users; as `StateWriter.push_profiles`."""
        self._writer.push_profiles("user", profiles)

    def push_items(self, *profiles: Mapping[str, Any]) -> None:
        """Replaces the static features of some items; as `StateWriter.push_profiles`."""
        self._writer.push_profiles("item", profiles)

    def values(
        self,
        context: Mapping[str, Any],
        candidates: Mapping[str, Sequence[Any]] | None = None,
        as_of: Any = None,
    ) -> Resolved:
        """The values of all features for one request; as `StateReader.values`."""
        return self._reader.values(context, candidates or {}, as_of)

    def close(self) -> None:
        """Ends the use of the store."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
