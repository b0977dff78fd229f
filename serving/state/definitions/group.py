"""Groups: the features whose state is one blob, as they have the same key and clock."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from serving.state.columns.times import ticks_per_second
from serving.state.definitions.aggregate_options import AggregateOptions
from serving.state.definitions.durations import Duration, in_ticks
from serving.state.definitions.history_options import HistoryOptions
from serving.state.definitions.key_kinds import KeyKind, key_kind
from serving.state.definitions.rule import Rule

Feature = AggregateOptions | HistoryOptions
FORMAT = 1  # of the blobs
_NOT_OF_STATE = {"name", "prior_strength", "prior_rate", "ages"}


@dataclass(frozen=True)
class Group:
    """Features with the same `by`, `time` and `forget_after`.

    Attributes:
        by: Columns of the key; none: all rows share one state.
        features: The definitions.
        columns: Names and types of the columns of an event.
        late: How much older than the newest event a late one may be; None: any age.
    """

    by: tuple[str, ...]
    features: tuple[Feature, ...]
    columns: pa.Schema
    late: Duration | None = None

    @cached_property
    def time(self) -> str:
        """The column of the times."""
        return self.features[0].time

    @cached_property
    def ticks(self) -> int | None:
        """Units of a second of the times; None if they are numbers."""
        return ticks_per_second(self.columns.field(self.time).type)

    @cached_property
    def has_float_times(self) -> bool:
        """Whether times are float64; else they are int64."""
        return bool(pa.types.is_floating(self.columns.field(self.time).type))

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """The events that each feature counts."""
        return tuple(feature.rule(self.ticks) for feature in self.features)

    @cached_property
    def key_kinds(self) -> dict[str, KeyKind]:
        """The kind of key of each column."""
        return {field.name: key_kind(field.type) for field in self.columns}

    def lists_texts(self, place: int) -> bool:
        """Whether the feature at a place is a history of texts."""
        feature = self.features[place]
        return isinstance(feature, HistoryOptions) and self.key_kinds[feature.of] == "string"

    @cached_property
    def gap(self) -> int | float | None:
        """The time without a row after which a key starts anew, in the unit of the times."""
        after = self.features[0].forget_after
        return None if after is None else in_ticks(after, self.ticks)

    @cached_property
    def late_ticks(self) -> int | float | None:
        """`late` in the unit of the times."""
        return None if self.late is None else in_ticks(self.late, self.ticks)

    @cached_property
    def fingerprint(self) -> bytes:
        """Eight bytes that are equal for equal state: names and priors do not matter."""
        used = dict.fromkeys([*self.by, *(name for f in self.features for name in names_of(f))])
        content = {
            "format": FORMAT,
            "by": self.by,
            "late": self.late,
            "types": {name: str(self.columns.field(name).type) for name in used},
            "features": [
                feature.model_dump(mode="json", exclude=_NOT_OF_STATE) | {"by": self.by}
                for feature in self.features
            ],
        }
        text = json.dumps(content, sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=8).digest()


def names_of(feature: Feature) -> tuple[str, ...]:
    """All columns that a feature reads."""
    return tuple(name for names in feature.roles.values() for name in names)


def groups_of(
    features: Iterable[Feature], columns: pa.Schema, late: Duration | None
) -> list[Group]:
    """The groups of some features, in the order of their first ones."""
    by_key: dict[object, list[Feature]] = {}
    for feature in features:
        key = (feature.keys, feature.time, feature.forget_after)
        by_key.setdefault(key, []).append(feature)
    return [Group(of[0].keys, tuple(of), columns, late) for of in by_key.values()]


def has_prior(feature: Feature) -> bool:
    """Whether the prior of a rate is the rate of all earlier events."""
    return (
        isinstance(feature, AggregateOptions)
        and feature.kind == "rate"
        and feature.prior_rate is None
        and feature.prior_strength > 0
    )


def overall(aggregate: AggregateOptions) -> AggregateOptions:
    """The aggregate of all keys over all time, for the running prior."""
    changed = dict.fromkeys(("window", "last", "resolution", "forget_after"))
    return aggregate.model_copy(update={**changed, "by": (), "name": "prior"})


def prior_group(
    features: Sequence[Feature], columns: pa.Schema, late: Duration | None
) -> Group | None:
    """The group of the running priors; equal ones are one."""
    rates = [f for f in features if isinstance(f, AggregateOptions) and has_prior(f)]
    priors = {prior_key(rate): overall(rate) for rate in rates}
    return Group((), tuple(priors.values()), columns, late) if priors else None


def prior_key(feature: Feature) -> tuple[object, ...]:
    """What the running prior of a rate depends on."""
    return (feature.of, feature.where, getattr(feature, "delay", None), feature.time)
