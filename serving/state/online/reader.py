"""Reads the values of features from a store, for one request and its candidates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from serving.state.definitions.aggregate_options import AggregateOptions
from serving.state.definitions.definition import StateDefinition, Stored
from serving.state.definitions.history_options import HistoryOptions
from serving.state.errors import require_column
from serving.state.keyed.blobs import decode
from serving.state.keyed.history_lists import history_lists
from serving.state.keyed.key_states import KeyStates
from serving.state.keyed.keys import Key, KeyKind
from serving.state.keyed.profiles import decode_profiles
from serving.state.online.clock import Clock
from serving.state.online.recent_blobs import RecentBlobs
from serving.state.online.request_keys import request_keys
from serving.state.past.values import feature_values
from serving.state.stores.store import Cell, Store


@dataclass(frozen=True)
class Resolved:
    """The values of the features for one request.

    Attributes:
        context: Of features whose key the request itself has, by name: a float32, NaN where
            nothing is known, or a list, oldest first. Of static features: a value, which may be the
            missing one of its type, or a list.
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
        keep_seconds: How long the states of candidates and the running priors are kept, which are
            the same for all users. Raise it where a store is far away; 0 reads all anew.
    """

    def __init__(
        self,
        store: Store,
        definition: StateDefinition,
        clock: Clock | None = None,
        keep_seconds: float = 0.0,
    ) -> None:
        self._read = RecentBlobs(store, keep_seconds).read
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
        request = _Request(context, candidates)
        statics = [_Keys.of(static, request) for static in self._definition.static]
        profiles = None
        if any(request.lacks(name) for name in self._definition.static_keys):
            # The profiles have parts of other keys, so they are a read of their own.
            profiles = self._profiles(statics, self._blobs(statics))
            names = filter(request.lacks, self._definition.static_keys)
            request = request.with_keys(list(names), *profiles)
        groups = [_Keys.of(group, request) for group in self._definition.groups]
        blobs = self._blobs(groups if profiles else [*groups, *statics])
        states = [
            decode(group, [next(blobs) for _ in keys.cells])
            for group, keys in zip(self._definition.groups, groups, strict=True)
        ]
        values = _Values(self._definition, moment, states)
        by_side: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
        for keys, of_group in zip(groups, states, strict=True):
            side = by_side[keys.is_of_candidates]
            for place, feature in enumerate(of_group.group.features if of_group.group.by else ()):
                side[feature.name] = values.of(of_group, place, keys)
        for side, of_side in zip(by_side, profiles or self._profiles(statics, blobs), strict=True):
            side.update(of_side)
        return Resolved(*by_side, moment)

    def _blobs(self, of: Sequence[_Keys]) -> Iterator[bytes | None]:
        """The blobs of all cells, in one read of the store."""
        cells = [cell for keys in of for cell in keys.cells]
        shared = {keys.stored.fingerprint for keys in of if keys.is_shared}
        return iter(self._read(cells, shared))

    def _profiles(
        self, statics: Sequence[_Keys], blobs: Iterator[bytes | None]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The static features of the request, and of its candidates."""
        by_side: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
        for static, keys in zip(self._definition.static, statics, strict=True):
            of_keys = decode_profiles(static, [*(next(blobs) for _ in keys.cells), None])
            by_side[keys.is_of_candidates].update(_static_values(of_keys, keys))
        return by_side


@dataclass(frozen=True)
class _Keys:
    """The keys of one group, or of static features, in a request.

    Attributes:
        stored: The group, or the static features.
        cells: Different cells.
        number: `(rows,)`, the cell of each row; -1: its key is missing.
        is_of_candidates: Whether each candidate is a row; else the request is the only one.
    """

    stored: Stored
    cells: list[Cell]
    number: np.ndarray
    is_of_candidates: bool

    @property
    def is_shared(self) -> bool:
        """Whether other users have the same keys: those of candidates alone, and the priors'."""
        return not self.stored.by or (self.is_of_candidates and len(self.stored.by) == 1)

    @classmethod
    def of(cls, stored: Stored, request: _Request) -> _Keys:
        is_of_candidates = any(name in request.candidates for name in stored.by)
        columns = [request.column(stored, name, is_of_candidates) for name in stored.by]
        numbers: dict[Key, int] = {}
        number = [
            -1 if None in key else numbers.setdefault(key, len(numbers))
            for key in (zip(*columns, strict=True) if columns else [()])
        ]
        cells = [Cell(stored.fingerprint, key) for key in numbers]
        return cls(stored, cells, np.array(number, np.int64), is_of_candidates)


class _Request:
    """The columns of a request as bytes of keys, each made once."""

    def __init__(self, context: Mapping[str, Any], candidates: Mapping[str, Sequence[Any]]) -> None:
        self._context = {**context}
        self.candidates = candidates
        self._rows = len(next(iter(candidates.values()), ()))
        self._bytes: dict[tuple[str, KeyKind], list[bytes | None]] = {}

    def lacks(self, name: str) -> bool:
        """Whether it has no value of a column."""
        return name not in self.candidates and self._context.get(name) is None

    def with_keys(
        self, names: Sequence[str], context: Mapping[str, Any], candidates: Mapping[str, Any]
    ) -> _Request:
        """The request with columns of a context, or else of its candidates."""
        of_context = {name: context[name] for name in names if name in context}
        of_candidates = {name: candidates[name] for name in names if name in candidates}
        return _Request(self._context | of_context, {**self.candidates, **of_candidates})

    def column(self, stored: Stored, name: str, is_of_candidates: bool) -> list[bytes | None]:
        """The bytes of one column of a key, for each of its rows."""
        kind = stored.key_kinds[name]
        if (name, kind) not in self._bytes:
            require_column(
                [*self._context, *self.candidates], name, "a key of the state", "request"
            )
            values = self.candidates[name] if name in self.candidates else [self._context[name]]
            self._bytes[name, kind] = request_keys(values, kind, name)
        of_column = self._bytes[name, kind]
        if is_of_candidates and name not in self.candidates:
            return of_column * self._rows
        return of_column


class _Values:
    """Computes values at one moment."""

    def __init__(
        self, definition: StateDefinition, moment: int | float, states: Sequence[KeyStates]
    ) -> None:
        self._definition = definition
        self._moment = moment
        self._states = states

    def of(self, states: KeyStates, place: int, keys: _Keys) -> Any:
        """The value of each row, or of the only one."""
        feature, past = states.group.features[place], states.pasts[place]
        moment = np.maximum(states.newest, self._moment)
        begin = states.begin(np.arange(len(moment)), moment)
        if isinstance(feature, HistoryOptions):
            of_keys = history_lists(states, place, past.ranges_of_keys(moment, begin), moment)
            lists = [of_keys[number] if number >= 0 else [] for number in keys.number]
            return lists if keys.is_of_candidates else lists[0]
        prior = self._prior(feature, moment)
        of_key = feature_values(feature, past, None, moment, prior, begin)
        values = np.append(of_key, np.float32(np.nan))[keys.number]
        return values if keys.is_of_candidates else values[0]

    def _prior(self, feature: AggregateOptions, moment: np.ndarray) -> np.ndarray | None:
        place = self._definition.prior_of(feature)
        if place is None:
            return None
        priors = self._states[-1]
        moment = np.maximum(priors.newest[0], moment)
        return priors.pasts[place].totals_before(np.zeros(len(moment), np.int64), moment)


def _static_values(of_keys: Mapping[str, np.ndarray], keys: _Keys) -> dict[str, Any]:
    """The values of each row, or of the only one; the last of the keys' is the missing one."""
    if not keys.is_of_candidates:
        return {name: values[keys.number[0]] for name, values in of_keys.items()}
    rows = {name: values[keys.number] for name, values in of_keys.items()}
    return {name: of.tolist() if of.dtype == object else of for name, of in rows.items()}
