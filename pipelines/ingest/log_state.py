"""The state after the last row of a log: what an online store continues from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from serving.state.columns.times import ticks_per_second
from serving.state.definitions.definition import StateDefinition
from serving.state.definitions.durations import Duration, in_ticks
from serving.state.definitions.group import Feature, Group, has_prior, prior_key
from serving.state.keyed.codes import Codes
from serving.state.keyed.key_states import KeyStates
from serving.state.keyed.keys import Key
from serving.state.past.past import Past
from serving.state.past.repeats import event_keys
from serving.state.past.segments import Segments
from serving.state.saved import SavedWriter

FOLDER = "state"  # in the data folder of a run
_CHUNK = 65_536  # keys


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
        ids: Keys, times and ids of the recent events that features have counted, by feature name,
            or by `prior_key`.
        newest: Time of the newest row; None before the first.
        columns: The columns of the log that features read, by name.
    """

    late: Duration | None = None
    event_id: str | None = None
    codes: dict[tuple[str, ...], Codes] = field(default_factory=dict)
    pasts: dict[str, Past] = field(default_factory=dict)
    priors: dict[tuple[object, ...], Past] = field(default_factory=dict)
    segments: dict[str, Segments] = field(default_factory=dict)
    texts: dict[str, list[str]] = field(default_factory=dict)
    ids: dict[object, list[tuple[np.ndarray, ...]]] = field(default_factory=dict)
    newest: int | float | None = None
    columns: dict[str, pa.Field] = field(default_factory=dict)

    def codes_of(self, feature: Feature) -> Codes:
        """The numbers of a feature's keys, which features with equal `by` share."""
        return self.codes.setdefault(feature.keys, Codes(feature.keys))

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
        ticks = ticks_per_second(self.columns[feature.time].type)
        first, more, has_id = ids
        recent = is_event & has_id.astype(bool)
        recent &= time >= self.newest - in_ticks(self.late, ticks)
        names: list[tuple[object, np.ndarray]] = [(feature.name, key)]
        if has_prior(feature):
            names.append((prior_key(feature), np.zeros_like(key)))
        for name, of_row in names:
            chosen = recent & (of_row >= 0)
            events = np.stack([first[chosen], more[chosen]], axis=1)
            self.ids.setdefault(name, []).append((of_row[chosen], time[chosen], events))

    def save(
        self,
        folder: Path,
        definition: StateDefinition,
        users: pa.Table | None,
        stamps: Mapping[str, str],
    ) -> None:
        """Writes the definition, the state of each key of each group, and the users.

        Args:
            folder: The folder to write.
            definition: The features.
            users: The table of users.
            stamps: Size and modification time of the files of the log, by name.
        """
        files = {name: int(stamp.split()[0]) for name, stamp in stamps.items()}
        with SavedWriter(folder, definition, self.newest, files) as writer:
            for group in definition.groups:
                keys = self.codes[group.by].keys if group.by else [()]
                whole = self._states(group, len(keys))
                for first in range(0, max(len(keys), 1), _CHUNK):  # a file without keys too
                    chosen = keys[first : first + _CHUNK]
                    writer.write(group, chosen, whole.part(first, first + len(chosen)))
                writer.write_ids(group, self._ids(group, keys))
            if definition.users is not None and users is not None:
                for first in range(0, users.num_rows, _CHUNK):
                    writer.write_users(definition.users, users.slice(first, _CHUNK))

    def _ids(self, group: Group, keys: Sequence[Key]) -> dict[tuple[Key, bytes], int]:
        """Which features, as bits, have counted each event."""
        bits: dict[tuple[Key, bytes], int] = {}
        for place, feature in enumerate(group.features):
            for key, time, ids in self.ids.get(
                feature.name if group.by else prior_key(feature), ()
            ):
                events = event_keys(time, ids, group.late_ticks)
                for number, event in zip(key.tolist(), events, strict=True):
                    bits[keys[number], event] = bits.get((keys[number], event), 0) | 1 << place
        return bits

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
        for name, past in zip(names, states.pasts, strict=True):
            if name in self.texts:
                past.parts[:, 1] += len(states.texts)
                states.texts += self.texts[name]
        return states
