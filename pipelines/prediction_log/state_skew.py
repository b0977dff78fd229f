"""Compares the values that a store gave with a replay of the events: `skew --state`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.common.errors import PipelineError
from pipelines.prediction_log.compare_values import Compared, compare_lists, compare_numbers
from pipelines.prediction_log.event_tables import event_tables, saved_profiles
from pipelines.prediction_log.log_folder import LoggedCall
from pipelines.prediction_log.replay import Replay
from pipelines.prediction_log.store_values import KeyBytes, ServedRequest, StoreLog
from serving.state.definitions.group import Feature, Group
from serving.state.definitions.history_options import HistoryOptions
from serving.state.keyed.keys import Key
from serving.state.online.clock import Clock
from serving.state.saved import SavedState


def measure_state_skew(
    entries: Iterable[LoggedCall],
    saved: SavedState,
    events: Path,
    users: int,
    versions: frozenset[int] = frozenset(),
) -> dict[str, Any]:
    """Compares what a store gave requests with what `ingest` would give them.

    Args:
        entries: The logged calls.
        saved: The state of the run.
        events: Folder of the events after it.
        users: Number of users, of those with the smallest hashes of their keys.
        versions: Versions in the log that belong to the run; empty: all.

    Returns:
        Plain data: the numbers of `users`, `requests` and `events`, `left_out` by reason, `columns`
        with the fields of `Compared` and `where` the first difference is, the number of `unequal`
        values, and `notes`, sentences.

    Raises:
        PipelineError: The run has no features over time, or the events cannot be read.
    """
    definition = saved.definition
    if not definition.features:
        raise PipelineError(
            "--state: the run has no `data.histories` and no `data.aggregates`, so there are no "
            "features over time to replay. Leave it out."
        )
    profiles = saved_profiles(saved)
    log = StoreLog(definition, users, profiles, versions)
    log.read(entries, saved.newest)
    requests = log.requests
    columns: dict[str, Compared] = {}
    where: dict[str, str] = {}
    replayed = late = 0
    if requests:
        moments = [request.moment for request in requests]
        groups = [_Rows(group, requests) for group in definition.groups]
        replay = Replay(saved, [of.numbers for of in groups], (min(moments), max(moments)))
        for table in event_tables(events, saved, profiles):
            replay.add(table)
        replayed, late = replay.rows, replay.late
        for number, rows in enumerate(groups):
            for place, feature in enumerate(rows.group.features if rows.group.by else ()):
                compared, at = rows.compare(replay, number, place, feature)
                if compared.rows:
                    columns[feature.name], where[feature.name] = compared, at
    return {
        "events": str(events),
        "users": log.sampled_users,
        "requests": len(requests),
        "replayed": replayed,
        "late": late,
        "left_out": dict(log.left_out.most_common()),
        "columns": {
            name: {**asdict(compared), "where": where[name]} for name, compared in columns.items()
        },
        "unequal": sum(compared.rows - compared.equal for compared in columns.values()),
        "notes": list(_notes(log, saved, columns)),
    }


def _notes(log: StoreLog, saved: SavedState, columns: Mapping[str, Compared]) -> Iterator[str]:
    """Sentences on the causes of unequal values."""
    for fingerprint, calls in sorted(log.other.items()):
        yield (
            f"{calls:,} calls used a state of another definition ({fingerprint}) than that of this "
            f"run ({log.definition.fingerprint.hex()}), and are not compared. Compare them with "
            "the run of their version."
        )
    count, example = log.wrong_clock
    if count:
        yield (
            f"{count:,} requests were answered as of a time more than 5 minutes away from that of "
            f"the answer, such as {example} (UTC): the clock of the server, the time zone of the "
            "log or `data.time_unit` is wrong."
        )
    if not log.requests:
        newest = "" if saved.newest is None else Clock(saved.definition).shown(saved.newest)
        yield (
            "No value can be compared: the log has no request of a version of this run "
            "(`--version` names them) that a store completed as of a time after the last row of "
            f"`ingest` ({newest or 'which had none'})."
        )
    fewer = sum(compared.fewer for compared in columns.values())
    more = sum(compared.more for compared in columns.values())
    lag = "" if log.lag is None else f" (it was up to {log.lag:.0f} s behind its log)"
    if fewer:
        yield (
            f"{fewer:,} counts and lists lack events that the replay has: the store got them after "
            f"the request{lag}, or never. Look into the dead letters of `state follow`."
        )
    if more:
        yield (
            f"{more:,} counts and lists have events that the replay has not: these were counted "
            "twice, are not in the folder, or are later than the time of the request."
        )


class _Rows:
    """The rows of one group: the requests, or their candidates.

    Attributes:
        group: The group.
        numbers: The numbers of the different keys.
    """

    def __init__(self, group: Group, requests: Sequence[ServedRequest]) -> None:
        self.group = group
        self.numbers: dict[Key, int] = {} if group.by else {(): 0}
        self._requests = requests
        keys = [_keys_of(group, request) for request in requests]
        self._lengths = np.array([len(of) for of in keys])
        self._key = np.array([self._number(key) for of in keys for key in of], np.int64)
        kind = np.float64 if group.has_float_times else np.int64
        self._moment = np.array([request.moment for request in requests], kind)

    def _number(self, key: tuple[KeyBytes, ...]) -> int:
        """The number of a key; -1 if it is missing."""
        present = tuple(part for part in key if part is not None)
        if len(present) < len(key):
            return -1
        return self.numbers.setdefault(present, len(self.numbers))

    def compare(
        self, replay: Replay, number: int, place: int, feature: Feature
    ) -> tuple[Compared, str]:
        """Compares the values of one feature; says where the first is that is not equal.

        Args:
            replay: The replay.
            number: The group among those of the definition.
            place: The feature among those of the group.
            feature: The feature.
        """
        chosen = np.array([feature.name in request.values for request in self._requests])
        of_row = np.repeat(np.arange(len(chosen)), self._lengths)
        rows = chosen[of_row]
        request = of_row[rows]
        replayed = replay.values(number, place, self._key[rows], self._moment[request])
        arrays = [of.values[feature.name] for of in self._requests if feature.name in of.values]
        if isinstance(feature, HistoryOptions):
            lists = [one for array in arrays for one in array.reshape(-1, array.shape[-1])]
            compared = compare_lists(lists, replayed, feature.ages)
        else:
            served = np.concatenate([np.ravel(array) for array in arrays]) if arrays else replayed
            compared = compare_numbers(served, replayed, feature.kind in ("count", "distinct"))
        if compared.first is None:
            return compared, ""
        at = int(request[compared.first])
        candidate = int(np.flatnonzero(rows)[compared.first] - self._lengths[:at].sum())
        name = self._requests[at].request_id
        return compared, f"{name}, candidate {candidate}" if self._lengths[at] > 1 else name


def _keys_of(group: Group, request: ServedRequest) -> list[tuple[KeyBytes, ...]]:
    """The key of the request in a group, or of each candidate."""
    columns = [request.keys[name] for name in group.by]
    rows = request.rows if any(isinstance(column, list) for column in columns) else 1
    lists = [column if isinstance(column, list) else [column] * rows for column in columns]
    return list(zip(*lists, strict=True)) if lists else [()]
