"""Aggregates online: the same definitions, continued event by event."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.common.errors import PipelineError
from pipelines.common.times import to_tick
from pipelines.ingest.aggregates.state import AggregateState

_RECENT = 65_536  # events between two merges into the sorted state


class Aggregates:
    """The aggregates of a run, continued from their state.

    Their values are those that `ingest` gives a row, to the bit, if the events are the same. A
    value holds only events that are strictly earlier than its time, so that events may be added
    as soon as they are known. Labels that arrive later than their row (a click, a purchase) are
    added when they arrive, with the time of the row.

    Args:
        state: The definition and what was kept so far; `load` reads it from a folder.

    Example:

        store = Aggregates.load("runs/clicks/data/aggregates")
        store.update({"user_id": 7, "item_id": 11, "shown_at": now, "click": 1})
        store.values({"user_id": 7, "item_id": 13}, later)
    """

    def __init__(self, state: AggregateState) -> None:
        self._state = state
        self._recent: list[dict[int, list[tuple[Any, np.ndarray]]]] = []
        self._forget_recent()

    @classmethod
    def load(cls, folder: Path | str) -> Aggregates:
        """Continues from `data/aggregates` of a run, or `assets.extra/aggregates` of an export."""
        return cls(AggregateState.load(Path(folder)))

    def save(self, folder: Path | str) -> None:
        """Writes the state into a new folder, in the form that `load` reads."""
        self._merge_recent()
        self._state.save(Path(folder))

    def merge(self, folder: Path | str) -> None:
        """Adds the events that another saved state has seen and this one has not."""
        self._merge_recent()
        self._state.merge(Path(folder))

    def update(self, *events: Mapping[str, Any]) -> None:
        """Adds rows by column name, in any order; other columns are ignored.

        Raises:
            PipelineError: A label, a number or a time is invalid.
        """
        state = self._state
        table = _table(events, state.columns)
        if not table.num_rows:
            return
        time = state.times(table, "event")
        keys = state.keys(table)
        newest = time.max().item()
        state.newest = newest if state.newest is None else max(state.newest, newest)
        for number, (is_event, parts) in enumerate(state.measured(table, "event")):
            key = keys[state.aggregates[number].keys]
            for row in np.flatnonzero(is_event & (key >= 0)).tolist():
                self._recent[number][int(key[row])].append((time[row], parts[row]))
            prior = state.priors[number]
            if prior is not None:
                own = np.flatnonzero(is_event)
                prior.add(np.zeros_like(own), time[own], parts[own])
                prior.forget(state.newest)
        if sum(map(len, self._recent)) > _RECENT:
            self._merge_recent()

    def values(self, keys: Mapping[str, Any], time: Any) -> dict[str, float | None]:
        """The aggregates of a row, by name; None where nothing is known.

        Args:
            keys: The columns of `by`, by name. One that is left out, null or a missing value ("",
                the smallest int64) names nobody: the values are None.
            time: Time of the row, as the column holds times: a number, or a datetime, a date or
                ISO 8601 text. The state knows nothing of the time before its newest event: an
                earlier time is answered as of that event.

        Raises:
            PipelineError: A key or the time has another type.
        """
        state = self._state
        names = list(dict.fromkeys(name for columns in state.codes for name in columns))
        kinds = pa.schema([state.columns.field(name) for name in names])
        row = _table([keys], kinds)
        codes = {columns: known.find(row) for columns, known in state.codes.items()}
        moment = self._moment(time)
        found: dict[str, float | None] = {}
        for number, (each, prior) in enumerate(zip(state.aggregates, state.priors, strict=True)):
            code, zero = codes[each.keys], np.zeros(1, np.int64)
            if code is None:
                found[each.name] = None
                continue
            past = state.pasts[number].only(code)
            recent = self._recent[number].get(code, ())
            if recent:
                times, parts = map(np.array, zip(*recent, strict=True))
                past.add(np.zeros(len(recent), np.int64), times, parts)
            shared = None if prior is None else prior.totals_before(zero, moment)
            value = float(past.values(zero, moment, shared).astype(np.float32)[0])
            found[each.name] = None if math.isnan(value) else value
        return found

    def _moment(self, time: Any) -> np.ndarray:
        field = self._state.columns.field(self._state.aggregates[0].time)
        tick = to_tick(time, field.type)
        if tick is None:
            raise PipelineError(
                f"`time`: expected a time such as the column {field.name!r} holds, whose type is "
                f"{field.type}. Received: {time!r}."
            )
        moment = np.array([tick])
        return moment if self._state.newest is None else np.maximum(moment, self._state.newest)

    def _merge_recent(self) -> None:
        state = self._state
        for number, (each, past) in enumerate(zip(state.aggregates, state.pasts, strict=True)):
            past.grow(len(state.codes[each.keys]))
            recent = [(k, t, p) for k, events in self._recent[number].items() for t, p in events]
            if recent:
                past.add(*map(np.array, zip(*recent, strict=True)))
            if state.newest is not None:
                past.forget(state.newest)
        self._forget_recent()

    def _forget_recent(self) -> None:
        self._recent = [defaultdict(list) for _ in self._state.aggregates]


def _table(rows: Sequence[Mapping[str, Any]], columns: pa.Schema) -> pa.Table:
    """Rows by column name, in the types of the log."""
    try:
        return pa.Table.from_pylist([dict(row) for row in rows], columns)
    except (pa.ArrowException, TypeError) as error:
        kinds = ", ".join(f"{field.name}: {field.type}" for field in columns)
        raise PipelineError(
            f"expected values of the types of the log ({kinds}). Received: {error}."
        ) from None
