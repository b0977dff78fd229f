"""The parts of a row that have a relevance: its fields and the events of its histories."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recsys_attn.schema import PADDING_ID, Feature, Numeric, Schema, Sequence

Inputs = Mapping[str, NDArray[Any]]  # of a model, one candidate a row
Bools = NDArray[np.bool_]
FIELDS = "fields"
MOST_EVENTS = 50


@dataclass(frozen=True)
class Units:
    """Parts of the rows that can be taken away, each alone or several at once.

    Attributes:
        names: Of the U parts.
        there: Which of them a row has, shape (rows, U).
    """

    schema: Schema
    inputs: Inputs
    names: tuple[str, ...]
    there: Bools

    def without(self, removed: Bools) -> Inputs:
        """The rows without some of their parts, shape (rows, U)."""
        raise NotImplementedError


class FieldUnits(Units):
    """The features and the whole histories of the rows.

    A row without a field has the missing value in its place, and without a history no event.
    """

    @classmethod
    def of(cls, schema: Schema, inputs: Inputs) -> FieldUnits:
        """The fields of some rows."""
        columns = _field_columns(schema)
        is_value = [
            np.any([_there(schema[name], inputs[name]) for name in columns_of_field], axis=0)
            for columns_of_field in columns.values()
        ]
        return cls(schema, inputs, tuple(columns), np.stack(is_value, axis=1))

    def without(self, removed: Bools) -> Inputs:
        inputs: dict[str, NDArray[Any]] = dict(self.inputs)
        for some, columns in zip(removed.T, _field_columns(self.schema).values(), strict=True):
            for name in columns:
                missing = np.nan if isinstance(self.schema[name], Numeric) else PADDING_ID
                value = inputs[name]
                of_row = some.reshape(-1, *[1] * (value.ndim - 1))
                inputs[name] = np.where(of_row, missing, value).astype(value.dtype)
        return inputs


@dataclass(frozen=True)
class EventUnits(Units):
    """The latest events of a history, the last one first.

    The others move together, as if an event that is taken away had never happened.

    Attributes:
        columns: The aligned sequences.
        places: Of the events in the model's input, shape (rows, U).
    """

    columns: tuple[str, ...]
    places: NDArray[np.intp]

    @classmethod
    def of(cls, schema: Schema, inputs: Inputs, history: str) -> EventUnits:
        """The events of a history of some rows, at most the latest `MOST_EVENTS`."""
        columns = tuple(sequence.name for sequence in schema.histories[history])
        happened = np.any([inputs[name] != PADDING_ID for name in columns], axis=0)
        count = min(happened.shape[1], MOST_EVENTS)
        latest_first = np.argsort(~happened[:, ::-1], axis=1, kind="stable")[:, :count]
        is_event = np.arange(count) < happened.sum(axis=1, keepdims=True)
        names = tuple(f"{number}" for number in range(1, count + 1))
        return cls(schema, inputs, names, is_event, columns, happened.shape[1] - 1 - latest_first)

    def without(self, removed: Bools) -> Inputs:
        first = self.inputs[self.columns[0]]
        away = np.zeros(first.shape, bool)
        np.put_along_axis(away, self.places, removed & self.there, axis=1)
        order = np.argsort(away, axis=1, kind="stable")
        left = ~np.take_along_axis(away, order, axis=1)
        moved = {
            name: np.where(left, np.take_along_axis(self.inputs[name], order, axis=1), PADDING_ID)
            for name in self.columns
        }
        return {**self.inputs, **moved}

    def by_event(self, by_place: NDArray[Any]) -> NDArray[Any]:
        """Takes the entries of the events out of an array by place in the model's input."""
        return np.take_along_axis(by_place, self.places, axis=1)


class AllUnits(NamedTuple):
    """The units of some rows.

    Attributes:
        fields: The fields.
        events: The events of each history, by its name.
    """

    fields: FieldUnits
    events: dict[str, EventUnits]

    @classmethod
    def of(cls, schema: Schema, inputs: Inputs) -> AllUnits:
        """The units of some rows."""
        events = {name: EventUnits.of(schema, inputs, name) for name in schema.histories}
        return cls(FieldUnits.of(schema, inputs), events)

    def by_kind(self) -> dict[str, Units]:
        """The units as `FIELDS`, and `events/<history>` for each history."""
        return {FIELDS: self.fields, **{of_events(name): e for name, e in self.events.items()}}


def of_events(history: str) -> str:
    """The kind of a history's events."""
    return f"events/{history}"


def history_field(schema: Schema, history: str) -> str:
    """The name of a history as a whole: its own, unless a feature has it."""
    features = [f.name for f in schema.features if not isinstance(f, Sequence)]
    return f"{history} (history)" if history in features else history


def _field_columns(schema: Schema) -> dict[str, tuple[str, ...]]:
    """The inputs of each feature, and of each history as a whole."""
    return {
        **{f.name: (f.name,) for f in schema.features if not isinstance(f, Sequence)},
        **{
            history_field(schema, name): tuple(sequence.name for sequence in sequences)
            for name, sequences in schema.histories.items()
        },
    }


def _there(feature: Feature, value: NDArray[Any]) -> Bools:
    known = ~np.isnan(value) if isinstance(feature, Numeric) else value != PADDING_ID
    return known.reshape(len(known), -1).any(axis=1)
