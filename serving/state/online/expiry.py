"""Removes keys whose past is forgotten, and ids of events that are too late to come again."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from serving.state.definitions.definition import StateDefinition
from serving.state.definitions.group import Group
from serving.state.errors import DataError
from serving.state.keyed.blobs import decode
from serving.state.keyed.key_states import no_time
from serving.state.keyed.keys import Key
from serving.state.online.notes import Notes
from serving.state.past.repeats import first_bucket
from serving.state.stores.store import Cell, Change, Store

_PART = 1000  # keys


@dataclass(frozen=True)
class Forgotten:
    """What became of the keys of one group.

    Attributes:
        by: The columns of the keys.
        keys: How many there were.
        removed: How many of them were removed.
    """

    by: tuple[str, ...]
    keys: int
    removed: int


def forget_old(
    store: Store, definition: StateDefinition, progress: Callable[[int], object] | None = None
) -> list[Forgotten]:
    """Removes what no later row and no later request needs; values stay as they are.

    A key goes once its newest row is `forget_after` and `late` older than the newest row of the
    log, unless an event changes it meanwhile. An event id goes once an event of its time is too
    late. Events may be added, and values read, at the same time.

    Args:
        store: The store.
        definition: The features.
        progress: Called with the number of keys of each part.

    Returns:
        One result for each group that has `forget_after`.

    Raises:
        DataError: Rows may be late by any age, so that everything is needed.
        StoreUnavailable: The store does not answer. What was removed by then stays so.
    """
    if definition.late is None:
        raise DataError(
            "Nothing can be removed: a row of any age may still come. Set `data.late`, the age "
            "from which a row does not count, and make the state again with `recsys-attn ingest`."
        )
    results = []
    for group in definition.groups:
        newest = Notes.read(store, group).newest
        if newest == no_time(group) or group.late_ticks is None:
            continue
        if definition.event_id is not None:
            store.forget_ids(group.fingerprint, first_bucket(newest, group.late_ticks))
        if group.gap is not None:
            oldest = newest - group.gap - group.late_ticks
            results.append(_forget_keys(store, group, oldest, progress))
    return results


def _forget_keys(
    store: Store,
    group: Group,
    oldest: int | float,
    progress: Callable[[int], object] | None,
) -> Forgotten:
    keys = removed = 0
    for part in _parts(store.cells(group.fingerprint)):
        blobs = [blob for _, blob in part]
        changes = [
            Change(Cell(group.fingerprint, key), blob, None, {})
            for (key, blob), time in zip(part, _newest_rows(group, blobs), strict=True)
            if time <= oldest
        ]
        keys += len(part)
        removed += sum(store.write(changes, {}))
        if progress is not None:
            progress(len(part))
    return Forgotten(group.by, keys, removed)


def _newest_rows(group: Group, blobs: Sequence[bytes]) -> np.ndarray:
    """The time of the newest row of each key."""
    states = decode(group, blobs)
    times = np.full(len(blobs), no_time(group), states.newest.dtype)
    if states.segments is not None:
        np.maximum.at(times, states.segments.key, states.segments.until)
    return times


def _parts(cells: Iterator[tuple[Key, bytes]]) -> Iterator[list[tuple[Key, bytes]]]:
    while part := list(itertools.islice(cells, _PART)):
        yield part
