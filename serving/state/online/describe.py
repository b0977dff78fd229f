"""What a store holds, for an operator: of each group, and of one key."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from serving.state.columns.times import ticks_per_second
from serving.state.definitions.definition import TICKS, StateDefinition, Stored
from serving.state.definitions.group import Group
from serving.state.definitions.history_options import HistoryOptions
from serving.state.definitions.static_features import Entity, StaticFeatures
from serving.state.errors import DataError, require_column
from serving.state.keyed.blobs import decode
from serving.state.keyed.key_states import KeyStates, no_time
from serving.state.online.clock import Clock
from serving.state.online.load import Loaded
from serving.state.online.notes import FOLLOWED, LOADED, Notes
from serving.state.online.reader import StateReader
from serving.state.online.request_keys import request_keys
from serving.state.stores.store import Cell, Store


@dataclass(frozen=True)
class GroupSummary:
    """The state of one group, or of static features, which have no rows and no log.

    Attributes:
        by: The columns of the key.
        of: Of static features, whose they are; None: a group.
        keys: How many there are.
        size: Bytes of their states.
        newest: Time of the newest row; None: there was none.
        age: Seconds since then, if the unit of the times is known.
        lag: Seconds since a follower had read all of its log; None: nothing follows one.
        is_loaded: Whether a whole state was loaded.
    """

    by: tuple[str, ...]
    of: Entity | None
    keys: int
    size: int
    newest: str | None
    age: float | None
    lag: float | None
    is_loaded: bool


@dataclass(frozen=True)
class FeatureSummary:
    """One feature of a key.

    Attributes:
        by: The columns of the key.
        name: The feature.
        value: Its value.
        ages: Of a history, seconds since each event, if the unit of the times is known; None: the
            store has nothing of the key.
    """

    by: tuple[str, ...]
    name: str
    value: Any
    ages: list[float] | None


@dataclass(frozen=True)
class KeySummary:
    """What a store holds of one key.

    Attributes:
        features: Its features.
        newest: Time of the newest of the events that it holds one by one; None: it holds none.
        age: Seconds since then, if the unit of the times is known.
    """

    features: list[FeatureSummary]
    newest: str | None
    age: float | None


def group_summaries(store: Store, definition: StateDefinition) -> list[GroupSummary]:
    """The state of each group, and of static features; walks all keys."""
    clock = Clock(definition)
    summaries = []
    for group in definition.stored:
        sizes = [len(blob) for _, blob in store.cells(group.fingerprint)]
        if isinstance(group, StaticFeatures):
            loaded = Loaded.read(store, group)
            is_loaded = loaded is not None and loaded.done
            summaries.append(
                GroupSummary(
                    group.by, group.of, len(sizes), sum(sizes), None, None, None, is_loaded
                )
            )
            continue
        notes = Notes.read(store, group)
        is_empty = notes.newest == no_time(group)
        followed = notes.of.get(FOLLOWED)
        summaries.append(
            GroupSummary(
                group.by,
                None,
                len(sizes),
                sum(sizes),
                None if is_empty else clock.shown(notes.newest),
                None if is_empty else seconds_between(definition, clock.now(), notes.newest),
                None if followed is None else max(0.0, time.time() - float(followed)),
                LOADED in notes.of,
            )
        )
    return summaries


def key_summary(
    store: Store, definition: StateDefinition, keys: Mapping[str, str], as_of: str | None
) -> KeySummary:
    """The features whose keys are given, or follow from these by static features.

    Args:
        store: The store.
        definition: The features.
        keys: Values of columns of keys, as text.
        as_of: The time of the values, as the log holds times. None: now.

    Raises:
        DataError: A column is none of a key, a value is of another type, or a time is needed.
    """
    for name in keys:
        require_column(sorted(definition.keys), name, "a key of the state", "--key")
    context = dict.fromkeys(definition.keys) | {n: _value(definition, n, keys[n]) for n in keys}
    resolved = StateReader(store, definition).values(context, {}, _time(definition, as_of))
    values, moment = resolved.context, resolved.as_of
    known = set(keys)
    for static in definition.static:
        if static.key in keys:
            names = {field.name for field in static.features} & definition.static_keys - known
            context |= {name: values[name] for name in names}
            known |= names
    features: list[FeatureSummary] = []
    newest: list[int | float] = []
    all_stored: tuple[Stored, ...] = (*definition.static, *definition.groups)
    for stored in all_stored:
        if not stored.by or not set(stored.by) <= known:
            continue
        blob = _blob(store, stored, context)
        ages: Sequence[list[float] | None] = [[]] * len(stored.features)
        if blob is None:
            ages = [None] * len(stored.features)
        elif isinstance(stored, Group):
            states = decode(stored, [blob])
            newest += [past.time.max().item() for past in states.pasts if len(past.time)]
            ages = _ages(definition, states, moment)
        features += [
            FeatureSummary(stored.by, feature.name, values[feature.name], of)
            for feature, of in zip(stored.features, ages, strict=True)
        ]
    clock, last = Clock(definition), max(newest, default=None)
    if last is None:
        return KeySummary(features, None, None)
    return KeySummary(features, clock.shown(last), seconds_between(definition, clock.now(), last))


def _blob(store: Store, stored: Stored, context: Mapping[str, Any]) -> bytes | None:
    """The bytes of the key that a context has; None: the store has no such key."""
    parts = [request_keys([context[n]], stored.key_kinds[n], n)[0] for n in stored.by]
    key = tuple(part for part in parts if part is not None)
    if len(key) < len(parts):
        return None
    (blob,) = store.read([Cell(stored.fingerprint, key)])
    return blob


def _ages(definition: StateDefinition, states: KeyStates, moment: int | float) -> list[list[float]]:
    """Of each history of a key, seconds since each event; of other features nothing."""
    at = np.maximum(states.newest, moment)
    begin = states.begin(np.arange(1), at)
    ages = []
    for feature, past in zip(states.group.features, states.pasts, strict=True):
        times: list[int | float] = []
        if isinstance(feature, HistoryOptions):
            (start,), (end,) = past.ranges_of_keys(at, begin)
            times = past.time[start:end].tolist()
        since = [seconds_between(definition, at[0].item(), time) for time in times]
        ages.append([age for age in since if age is not None])
    return ages


def _value(definition: StateDefinition, name: str, text: str) -> Any:
    kind = definition.key_kinds[name]
    try:
        return {"string": str, "int64": int, "float64": float}[kind](text)
    except ValueError:
        raise DataError(f"--key: {name!r}: expected {kind}. Received: {text!r}.") from None


def _time(definition: StateDefinition, text: str | None) -> Any:
    """A time as the log holds it."""
    with contextlib.suppress(ValueError):
        if text is not None and ticks_per_second(definition.time_type) is None:
            return int(text) if text.lstrip("-").isdigit() else float(text)
    return text


def seconds_between(
    definition: StateDefinition, now: int | float | None, then: int | float
) -> float | None:
    """Seconds between two times; None if their unit is not known."""
    unit = definition.time_unit
    ticks = ticks_per_second(definition.time_type) or (None if unit is None else TICKS[unit])
    return None if now is None or ticks is None else (now - then) / ticks
