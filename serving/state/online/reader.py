"""Reads the values of features from a store, for one request and its candidates."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from serving.state.columns.missing import MISSING_INT
from serving.state.definitions.aggregate_options import AggregateOptions
from serving.state.definitions.definition import StateDefinition
from serving.state.definitions.group import Group
from serving.state.definitions.history_options import HistoryOptions
from serving.state.errors import DataError, require_column
from serving.state.keyed.blobs import decode
from serving.state.keyed.key_states import KeyStates
from serving.state.keyed.keys import Key, key_bytes, key_kind
from serving.state.keyed.listed_values import from_words
from serving.state.online.clock import Clock
from serving.state.past.past import Past
from serving.state.past.values import feature_values
from serving.state.stores.store import Cell, Store


@dataclass(frozen=True)
class Resolved:
    """The values of the features for one request.

    Attributes:
        context: Of features whose key the request itself has, by name: a float32, NaN where
            nothing is known, or a list, oldest first.
        candidates: Of features whose key a candidate has, by name: one value for each.
        as_of: The time of the values, in the unit of the log's times.
    """

    context: Mapping[str, Any]
    candidates: Mapping[str, Any]
    as_of: int | float


class StateReader:
    """Reads features from a store.

    Args:
        store: The store.
        definition: The features.
        clock: The clock, for requests without a time.
    """

    def __init__(
        self, store: Store, definition: StateDefinition, clock: Clock | None = None
    ) -> None:
        self._store = store
        self._definition = definition
        self._clock = clock or Clock(definition)

    def values(
        self,
        context: Mapping[str, Any],
        candidates: Mapping[str, Sequence[Any]],
        as_of: Any = None,
    ) -> Resolved:
        """The values of all features for one request.

        Args:
            context: Columns of the request, by name; a missing value names nobody.
            candidates: Columns of the candidates, by name, all of one length.
            as_of: Time of the request, as the log holds times. None: now. The state of a key knows
                nothing of the time before its newest event: an earlier time is answered as of
                that event.

        Raises:
            DataError: A column of a key is absent, or has a value of another type.
            StoreUnavailable: The store does not answer.
        """
        moment = self._clock.moment(as_of)
        groups = [_Keys.of(group, context, candidates) for group in self._definition.groups]
        cells = [cell for keys in groups for cell in keys.cells]
        blobs = iter(self._store.read(cells))
        states = [decode(keys.group, [next(blobs) for _ in keys.cells]) for keys in groups]
        values = _Values(self._definition, moment, states[-1])
        by_side: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
        for keys, of_group in zip(groups, states, strict=True):
            if keys.group.by:
                side = by_side[keys.is_of_candidates]
                for place, feature in enumerate(keys.group.features):
                    side[feature.name] = values.of(of_group, place, keys)
        return Resolved(*by_side, moment)


@dataclass(frozen=True)
class _Keys:
    """The keys of one group in a request.

    Attributes:
        group: The group.
        cells: Different cells.
        number: `(rows,)`, the cell of each row; -1: its key is missing.
        is_of_candidates: Whether each candidate is a row; else the request is the only one.
    """

    group: Group
    cells: list[Cell]
    number: np.ndarray
    is_of_candidates: bool

    @classmethod
    def of(
        cls, group: Group, context: Mapping[str, Any], candidates: Mapping[str, Sequence[Any]]
    ) -> _Keys:
        own = [name for name in group.by if name not in context]
        for name in own:
            require_column([*context, *candidates], name, "a key of the state", "the request")
        rows = len(candidates[own[0]]) if own else 1
        columns = []
        for name in group.by:
            kind = group.columns.field(name).type
            values = candidates[name] if name in own else [context[name]] * rows
            columns.append([_key_bytes(value, key_kind(kind), name) for value in values])
        keys: list[Key | None] = [
            None if None in row else row
            for row in (zip(*columns, strict=True) if columns else [()])
        ]
        numbers = {key: n for n, key in enumerate(dict.fromkeys(k for k in keys if k is not None))}
        cells = [Cell(group.fingerprint, key) for key in numbers]
        number = [-1 if key is None else numbers[key] for key in keys]
        return cls(group, cells, np.array(number, np.int64), bool(own))


class _Values:
    """Computes values at one moment."""

    def __init__(
        self, definition: StateDefinition, moment: int | float, last_group: KeyStates
    ) -> None:
        self._definition = definition
        self._moment = moment
        self._priors = last_group  # if any rate has a running prior

    def of(self, states: KeyStates, place: int, keys: _Keys) -> Any:
        """The value of each row, or of the only one."""
        feature, past = keys.group.features[place], states.pasts[place]
        present = keys.number[keys.number >= 0]
        moment = np.maximum(states.newest[present], self._moment)
        begin = states.begin(present, moment)
        if isinstance(feature, HistoryOptions):
            lists: list[list[Any]] = [[] for _ in keys.number]
            made = self._lists(feature, past, states, (present, moment, begin))
            for row, listed in zip(np.flatnonzero(keys.number >= 0), made, strict=True):
                lists[row] = listed
            return lists if keys.is_of_candidates else lists[0]
        prior = self._prior(feature, moment)
        values = np.full(len(keys.number), np.nan, np.float32)
        values[keys.number >= 0] = feature_values(feature, past, present, moment, prior, begin)
        return values if keys.is_of_candidates else values[0]

    def _prior(self, feature: AggregateOptions, moment: np.ndarray) -> np.ndarray | None:
        place = self._definition.prior_of(feature)
        if place is None:
            return None
        at = np.maximum(self._priors.newest[0], moment)
        return self._priors.pasts[place].totals_before(np.zeros(len(at), np.int64), at)

    def _lists(
        self,
        feature: HistoryOptions,
        past: Past,
        states: KeyStates,
        rows: tuple[np.ndarray, np.ndarray, np.ndarray | None],
    ) -> list[list[Any]]:
        start, end = past.ranges(*rows)
        lists: list[list[Any]] = []
        kind = key_kind(states.group.columns.field(feature.of).type)
        for first, last, moment in zip(start, end, rows[1], strict=True):
            if feature.ages:
                lists.append(((moment - past.time[first:last]) / past.rule.second).tolist())
            else:
                known, words = past.parts[first:last].T
                lists.append(from_words(known, words.copy(), kind, states.texts))
        return lists


def _key_bytes(value: Any, kind: str, name: str) -> bytes | None:
    """The bytes of a value of a request; None for a missing one."""
    if value is None or value == "" or value == b"" or value == MISSING_INT:
        return None
    if isinstance(value, np.generic):
        value = value.item()
    if kind == "string" and isinstance(value, str | bytes):
        return key_bytes(value, "string")
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if kind == "int64" and is_number and value == int(value):
        return key_bytes(int(value), "int64")
    if kind == "float64" and is_number:
        return None if math.isnan(value) else key_bytes(float(value), "float64")
    raise DataError(
        f"column {name!r}, a key of the state: expected {kind}, as in the log. Received: {value!r}."
    )
