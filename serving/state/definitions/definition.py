"""The definition of a state: features over time, and the columns of an event."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, get_args

import pyarrow as pa

from serving.state.definitions.aggregate_options import AggregateOptions
from serving.state.definitions.durations import SECONDS, Duration
from serving.state.definitions.group import (
    Feature,
    Group,
    groups_of,
    has_prior,
    names_of,
    prior_group,
    prior_key,
)
from serving.state.definitions.history_options import HistoryOptions
from serving.state.definitions.key_kinds import KeyKind, key_kind
from serving.state.definitions.static_features import Entity, StaticFeatures
from serving.state.errors import DataError

TimeUnit = Literal["s", "ms", "us", "ns"]
TICKS = dict(zip(get_args(TimeUnit), (1, 10**3, 10**6, 10**9), strict=True))
_FORMAT = 2  # of `to_dict`
_PAUSE = 7 * SECONDS["d"]

Stored = Group | StaticFeatures  # of which a store has cells


@dataclass(frozen=True)
class StateDefinition:
    """What a store keeps of events, and the features that it answers.

    Attributes:
        aggregates: Numbers of earlier events.
        histories: Lists of earlier values.
        columns: Names and types of the columns of an event that features read.
        late: How much older than the newest event a late one may be; None: any age.
        event_id: Column of the id of an event; None: each row is an event.
        time_unit: Unit of times that are numbers since 1970, if they are such.
        static: Static features: of users, for the model and for features over time; of items,
            those that features over time read.
    """

    aggregates: tuple[AggregateOptions, ...]
    histories: tuple[HistoryOptions, ...]
    columns: pa.Schema
    late: Duration | None = None
    event_id: str | None = None
    time_unit: TimeUnit | None = None
    static: tuple[StaticFeatures, ...] = ()

    def of_columns(self, columns: pa.Schema) -> StateDefinition:
        """The definition over a log, with the columns alone that it reads.

        Args:
            columns: All columns of the log.
        """
        names = dict.fromkeys(name for feature in self.features for name in names_of(feature))
        if self.event_id is not None:
            names[self.event_id] = None
        return replace(self, columns=pa.schema([columns.field(name) for name in names]))

    @property
    def time(self) -> str:
        """The column of the times, which all features share.

        Raises:
            DataError: There are no features over time.
        """
        if not self.features:
            raise DataError(
                "The state has no features over time, so it counts no events. Declare "
                "`data.aggregates` or `data.histories` and make it again."
            )
        return self.features[0].time

    @property
    def time_type(self) -> pa.DataType:
        """The type of the times; without features over time, that of a moment."""
        return self.columns.field(self.time).type if self.features else pa.timestamp("us", "UTC")

    @property
    def features(self) -> tuple[Feature, ...]:
        """The aggregates and the histories."""
        return (*self.aggregates, *self.histories)

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The features by key, and the running priors, which have the empty key."""
        groups = groups_of(self.features, self.columns, self.late)
        priors = prior_group(self.features, self.columns, self.late)
        return tuple(groups) if priors is None else (*groups, priors)

    @cached_property
    def stored(self) -> tuple[Stored, ...]:
        """All that a store has cells of: the groups and the static features."""
        return (*self.groups, *self.static)

    @cached_property
    def names(self) -> frozenset[str]:
        """The features that a store answers."""
        of_static = [field for static in self.static for field in static.features]
        return frozenset(feature.name for feature in (*self.features, *of_static))

    @cached_property
    def keys(self) -> frozenset[str]:
        """The columns of all keys."""
        return frozenset(name for group in self.stored for name in group.by)

    @cached_property
    def event_columns(self) -> pa.Schema:
        """Names and types of the columns of an event as a client or a log has it.

        In place of the static features that features over time read, they have the ids of these.
        """
        fields = {field.name: field for field in self.columns}
        for static in self.static:
            read = [fields.pop(f.name) for f in static.features if f.name in fields]
            if read:
                fields.setdefault(static.key, static.columns.field(static.key))
        return pa.schema(fields.values())

    @cached_property
    def static_keys(self) -> frozenset[str]:
        """Columns of keys of groups that are static features."""
        of_static = {field.name for static in self.static for field in static.features}
        return frozenset(name for group in self.groups for name in group.by if name in of_static)

    @cached_property
    def key_kinds(self) -> dict[str, KeyKind]:
        """The kind of each column as a key."""
        of_static = [field for static in self.static for field in static.columns]
        return {field.name: key_kind(field.type) for field in (*of_static, *self.columns)}

    @cached_property
    def fingerprint(self) -> bytes:
        """Eight bytes that are equal for equal groups and static features."""
        groups = b"".join(group.fingerprint for group in self.stored)
        return hashlib.blake2b(groups, digest_size=8).digest()

    def static_of(self, of: Entity) -> StaticFeatures:
        """The static features of users or of items.

        Args:
            of: Which.

        Raises:
            DataError: There are none.
        """
        for static in self.static:
            if static.of == of:
                return static
        raise DataError(
            f"The state has no static features of {of}s. Declare `data.{of}s` in the experiment "
            "and make it again."
        )

    def prior_of(self, feature: Feature) -> int | None:
        """The place of a rate's running prior in the last group; None if it has none."""
        if not has_prior(feature):
            return None
        priors = [prior_key(prior) for prior in self.groups[-1].features]
        return priors.index(prior_key(feature))

    @property
    def late_ticks(self) -> int | float | None:
        """`late` in the unit of the times."""
        return self.groups[0].late_ticks

    @property
    def expire_ids(self) -> int | None:
        """Seconds after which a store may drop an event id by its own clock; None: never.

        An id is needed until rows that are `late` newer have come: a log may stand still for a
        week more.
        """
        ticks = self.groups[0].ticks or (TICKS[self.time_unit] if self.time_unit else None)
        if self.late_ticks is None or ticks is None:
            return None
        return math.ceil(self.late_ticks / ticks) + _PAUSE

    def to_dict(self) -> dict[str, Any]:
        """Plain data that `from_dict` reads."""
        return {
            "format": _FORMAT,
            "aggregates": [a.model_dump(mode="json") for a in self.aggregates],
            "histories": [h.model_dump(mode="json") for h in self.histories],
            "late": self.late,
            "event_id": self.event_id,
            "time_unit": self.time_unit,
            "columns": _to_dict(self.columns),
            "static": [{"of": s.of, "key": s.key, **_to_dict(s.columns)} for s in self.static],
        }

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any], where: str) -> StateDefinition:
        """The definition that `to_dict` wrote.

        Raises:
            DataError: It is of another version.
        """
        if saved.get("format") != _FORMAT:
            raise DataError(
                f"{where}: expected a state of format {_FORMAT}, received {saved.get('format')!r}. "
                "Make it again with `recsys-attn ingest` of this version."
            )
        return cls(
            tuple(AggregateOptions.model_validate(table) for table in saved["aggregates"]),
            tuple(HistoryOptions.model_validate(table) for table in saved["histories"]),
            _from_dict(saved["columns"]),
            saved["late"],
            saved["event_id"],
            saved["time_unit"],
            tuple(StaticFeatures(s["of"], s["key"], _from_dict(s)) for s in saved["static"]),
        )


def _to_dict(columns: pa.Schema) -> dict[str, Any]:
    return {
        "types": {field.name: str(field.type) for field in columns},  # for people
        "schema": base64.b64encode(columns.serialize().to_pybytes()).decode(),  # the same, exactly
    }


def _from_dict(saved: Mapping[str, Any]) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(saved["schema"])))
