"""Aggregates online: the same definitions, continued event by event."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.ingest.aggregates.aggregate_state import AggregateState
from pipelines.ingest.aggregates.log_rows import read_rows, read_time

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

        Args:
            events: Each has every column of the definitions, None where the log has null. A label
                is 0 or 1, or a boolean. A time is written as for `values`.

        Raises:
            PipelineError: A column is absent; a label, a number or a time is invalid.
        """
        if not events:
            return
        state = self._state
        table = read_rows(events, state.columns.names, state)
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
                rows = np.flatnonzero(is_event)
                prior.add(np.zeros_like(rows), time[rows], parts[rows])
                prior.forget(state.newest)
        if sum(map(len, self._recent)) > _RECENT:
            self._merge_recent()

    def values(self, keys: Mapping[str, Any], time: Any) -> dict[str, float | None]:
        """The aggregates of a row, by name; None where nothing is known.

        Args:
            keys: The columns of `by`, by name; others are ignored. None or a missing value ("", the
                smallest int64) names nobody: the values are None.
            time: Time of the row, as the column holds times: a number, or a datetime, a date or
                ISO 8601 text. The state knows nothing of the time before its newest event: an
                earlier time is answered as of that event.

        Raises:
            PipelineError: A column is absent, or a key or the time has another type.
        """
        state = self._state
        names = dict.fromkeys(name for columns in state.codes for name in columns)
        row = read_rows([keys], names, state)
        codes = {columns: known.find(row) for columns, known in state.codes.items()}
        moment = self._moment(time)
        by_name: dict[str, float | None] = {}
        for number, (aggregate, prior) in enumerate(
            zip(state.aggregates, state.priors, strict=True)
        ):
            code, zero = codes[aggregate.keys], np.zeros(1, np.int64)
            if code is None:
                by_name[aggregate.name] = None
                continue
            past = state.pasts[number].only(code)
            recent = self._recent[number].get(code, ())
            if recent:
                times, parts = map(np.array, zip(*recent, strict=True))
                past.add(np.zeros(len(recent), np.int64), times, parts)
            shared = None if prior is None else prior.totals_before(zero, moment)
            value = float(past.values(zero, moment, shared).astype(np.float32)[0])
            by_name[aggregate.name] = None if math.isnan(value) else value
        return by_name

    def _moment(self, time: Any) -> np.ndarray:
        kind = self._state.columns.field(self._state.time).type
        moment = np.array([read_time(time, kind, "`time`")])
        return moment if self._state.newest is None else np.maximum(moment, self._state.newest)

    def _merge_recent(self) -> None:
        state = self._state
        for number, (aggregate, past) in enumerate(zip(state.aggregates, state.pasts, strict=True)):
            past.grow(len(state.codes[aggregate.keys]))
            recent = [(k, t, p) for k, events in self._recent[number].items() for t, p in events]
            if recent:
                past.add(*map(np.array, zip(*recent, strict=True)))
            if state.newest is not None:
                past.forget(state.newest)
        self._forget_recent()

    def _forget_recent(self) -> None:
        self._recent = [defaultdict(list) for _ in self._state.aggregates]
