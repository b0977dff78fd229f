"""The state after the last row of a log: what an online store continues from."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from pipelines.ingest.event_ids import Counted
from serving.state.columns.times import ticks_per_second
from serving.state.definitions.aggregate_options import AggregateOptions
from serving.state.definitions.definition import StateDefinition
from serving.state.definitions.durations import Duration, in_ticks
from serving.state.definitions.group import Feature, Group, has_prior, overall, prior_key
from serving.state.definitions.static_features import StaticFeatures
from serving.state.keyed.codes import Codes
from serving.state.keyed.key_states import KeyStates
from serving.state.keyed.keys import Key
from serving.state.past.past import Past
from serving.state.past.repeats import event_keys, events_of_keys
from serving.state.past.segments import Segments
from serving.state.saved import SavedState, SavedWriter

FOLDER = "state"  # in the data folder of a run
_CHUNK = 65_536  # keys


class StaticTable(NamedTuple):
    """Static features for a store.

    Attributes:
        features: Their definition.
        table: Its columns.
        written: Microseconds since 1970 when its files were written.
    """

    features: StaticFeatures
    table: pa.Table
    written: int


@dataclass
class LogState:
    """What features keep of a log.

    Attributes:
        late: How much older than the newest event a late one may be; None: any age.
        event_id: Column of the id of an event; None: each row is an event.
        codes: The keys, by the columns of `by`.
        pasts: By feature name.
        priors: Of the running priors of rates, under the only key 0, by `prior_key`.
        segments: Of features that forget, by feature name.
        texts: Texts of histories, by feature name.
        ids: The recent events that features have counted, by feature name or by `prior_key`.
        newest: Time of the newest row; None before the first.
        columns: The columns of the log that features read, by name.
        since: Time of the newest row of the earlier log; None: there is none.
        before: `ids` of the earlier log.
        late_rows: Rows of this log that are too late behind the earlier one to count.
        files: Names and sizes of the files of the earlier log.
    """

    late: Duration | None = None
    event_id: str | None = None
    codes: dict[tuple[str, ...], Codes] = field(default_factory=dict)
    pasts: dict[str, Past] = field(default_factory=dict)
    priors: dict[tuple[object, ...], Past] = field(default_factory=dict)
    segments: dict[str, Segments] = field(default_factory=dict)
    texts: dict[str, list[str]] = field(default_factory=dict)
    ids: dict[object, list[Counted]] = field(default_factory=dict)
    newest: int | float | None = None
    columns: dict[str, pa.Field] = field(default_factory=dict)
    since: int | float | None = None
    before: dict[object, Counted] = field(default_factory=dict)
    late_rows: int = 0
    files: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def behind(cls, saved: SavedState) -> LogState:
        """The state after an earlier log.

        Args:
            saved: As `save` has written it.
        """
        of = saved.definition
        columns = {column.name: column for column in of.columns}
        state = cls(of.late, of.event_id, newest=saved.newest, columns=columns, since=saved.newest)
        state.files = saved.files
        for group in of.groups:
            keys, states = saved.states(group)
            if group.by:
                state.codes.setdefault(group.by, Codes(group.by, keys))
            for place, (feature, past) in enumerate(zip(group.features, states.pasts, strict=True)):
                if not group.by:
                    state.priors[prior_key(feature)] = past
                    continue
                state.pasts[feature.name] = past
                if group.lists_texts(place):
                    state.texts[feature.name] = states.texts
                if states.segments is not None:
                    state.segments[feature.name] = states.segments
            state._take_ids(saved, group)
        state.ids = {name: [counted] for name, counted in state.before.items()}
        return state

    def codes_of(self, feature: Feature) -> Codes:
        """The numbers of a feature's keys, which features with equal `by` share."""
        return self.codes.setdefault(feature.keys, Codes(feature.keys))

    def past_of(self, feature: Feature) -> Past:
        """The past of a feature, for all keys that have a number."""
        keys, past = len(self.codes_of(feature)), self.pasts.get(feature.name)
        return (
            Past(feature.rule(self._ticks(feature)), keys) if past is None else past.of_keys(keys)
        )

    def prior_of(self, feature: Feature) -> Past | None:
        """The past of the running prior of a rate, if it has one."""
        if not isinstance(feature, AggregateOptions) or not has_prior(feature):
            return None
        past = self.priors.get(prior_key(feature))
        return (
            Past(overall(feature).rule(self._ticks(feature)), 1)
            if past is None
            else past.of_keys(1)
        )

    def segments_of(self, feature: Feature) -> Segments | None:
        """The segments of a feature that forgets."""
        if feature.forget_after is None:
            return None
        if feature.name in self.segments:
            return copy.copy(self.segments[feature.name])
        ticks = self._ticks(feature)
        late = None if self.late is None else in_ticks(self.late, ticks)
        return Segments(in_ticks(feature.forget_after, ticks), late)

    def too_late(self, feature: Feature, time: np.ndarray) -> np.ndarray:
        """`(rows,)`: whether each row is too late behind the earlier log to count."""
        if self.since is None or self.late is None:
            return np.zeros(len(time), bool)
        late: np.ndarray = time < self.since - in_ticks(self.late, self._ticks(feature))
        return late

    def is_earlier(self, moment: np.ndarray) -> np.ndarray:
        """`(rows,)`: whether each moment is before the newest row of the earlier log.

        Such a row sees what a store would give it: the earlier log as of its newest row.
        """
        earlier: np.ndarray = (
            np.zeros(len(moment), bool) if self.since is None else moment < self.since
        )
        return earlier

    def see(self, times: np.ndarray) -> None:
        """Takes in times of rows."""
        if len(times):
            newest = times.max().item()
            self.newest = newest if self.newest is None else max(self.newest, newest)

    def see_ids(
        self,
        feature: Feature,
        key: np.ndarray,
        time: np.ndarray,
        is_event: np.ndarray,
        ids: Sequence[np.ndarray],
    ) -> None:
        """Takes in the ids of events, but for old ones, which are too late if they come again."""
        if self.late is None or self.newest is None:
            return
        first, more, has_id = ids
        recent = is_event & has_id.astype(bool)
        recent &= time >= self.newest - in_ticks(self.late, self._ticks(feature))
        names: list[tuple[object, np.ndarray]] = [(feature.name, key)]
        if has_prior(feature):
            names.append((prior_key(feature), np.zeros_like(key)))
        for name, of_row in names:
            chosen = recent & (of_row >= 0)
            events = np.stack([first[chosen], more[chosen]], axis=1)
            self.ids.setdefault(name, []).append(Counted(of_row[chosen], time[chosen], events))

    def save(
        self,
        folder: Path,
        definition: StateDefinition,
        tables: Iterable[StaticTable],
        stamps: Mapping[str, str],
    ) -> None:
        """Writes the definition, the state of each key of each group, the users and the items.

        Args:
            folder: The folder to write.
            definition: The features.
            tables: The static features.
            stamps: Size and modification time of the files of the log, by name.
        """
        files = {**self.files, **{name: int(stamp.split()[0]) for name, stamp in stamps.items()}}
        with SavedWriter(folder, definition, self.newest, files) as writer:
            for group in definition.groups:
                keys = self.codes[group.by].keys if group.by else [()]
                whole = self._states(group, len(keys))
                for first in range(0, max(len(keys), 1), _CHUNK):  # a file without keys too
                    chosen = keys[first : first + _CHUNK]
                    writer.write(group, chosen, whole.part(first, first + len(chosen)))
                writer.write_ids(group, self._ids(group, keys))
            for static, table, written in tables:
                for first in range(0, max(table.num_rows, 1), _CHUNK):
                    writer.write_profiles(static, table.slice(first, _CHUNK), written)

    def _ids(self, group: Group, keys: Sequence[Key]) -> dict[tuple[Key, bytes], int]:
        """Which features, as bits, have counted each event."""
        bits: dict[tuple[Key, bytes], int] = {}
        if self.newest is None or group.late_ticks is None:
            return bits
        for place, feature in enumerate(group.features):
            name = _id_name(group, feature)
            for counted in self.ids.get(name, []):
                held = counted.where(counted.time >= self.newest - group.late_ticks)
                events = event_keys(held.time, held.ids, group.late_ticks)
                for number, event in zip(held.key.tolist(), events, strict=True):
                    bits[keys[number], event] = bits.get((keys[number], event), 0) | 1 << place
        return bits

    def _take_ids(self, saved: SavedState, group: Group) -> None:
        """Reads the events that may arrive again."""
        codes = self.codes[group.by] if group.by else Codes((), [()])
        for events, of_events in saved.ids(group):
            key = codes.numbers(key for key, _ in events)
            time, ids = events_of_keys([event for _, event in events], group.has_float_times)
            bits = np.array(of_events, np.int64)
            for place, feature in enumerate(group.features):
                name = _id_name(group, feature)
                counted = Counted(key, time, ids).where(bits >> place & 1 == 1)
                if name in self.before:
                    pairs = zip(self.before[name], counted, strict=True)
                    counted = Counted(*map(np.concatenate, pairs))
                self.before[name] = counted

    def _ticks(self, feature: Feature) -> int | None:
        """Units of a second of the times."""
        return ticks_per_second(self.columns[feature.time].type)

    def _states(self, group: Group, keys: int) -> KeyStates:
        states = KeyStates(group, keys)
        if self.newest is not None:
            states.newest[:] = self.newest
        names = [feature.name for feature in group.features]
        states.pasts = [
            self.pasts[feature.name] if group.by else self.priors[prior_key(feature)]
            for feature in group.features
        ]
        if states.segments is not None:
            states.segments = self.segments[names[0]]
        for place, name in enumerate(names):
            if group.lists_texts(place):
                states.pasts[place].parts[:, 1] += len(states.texts)
                states.texts += self.texts[name]
        return states


def _id_name(group: Group, feature: Feature) -> object:
    return feature.name if group.by else prior_key(feature)
