"""The definition and the state of aggregates, as files that a later process continues from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.common.artifacts import read_json, write_json
from pipelines.common.errors import PipelineError
from pipelines.common.times import ticks_per_second, to_ticks
from pipelines.ingest.aggregates.aggregate_options import AggregateOptions
from pipelines.ingest.aggregates.measures import PARTS, Codes, measure
from pipelines.ingest.aggregates.past import Past
from pipelines.storage.dataset import open_parquet

FOLDER = "aggregates"  # in the data folder of a run
DEFINITION = "aggregates.json"
_COLUMNS = "columns.parquet"
_KEY = "by/{}".format


@dataclass
class AggregateState:
    """All aggregates of an experiment, each with its past.

    Attributes:
        aggregates: The definitions.
        columns: Names and types of the columns of an event.
        codes: The keys, by the columns of `by`.
        values: The values of `"distinct"`, by column.
        pasts: What each aggregate keeps.
        priors: What the running prior of a rate keeps, under the only key 0.
        newest: Time of the newest row; None before the first.
    """

    aggregates: tuple[AggregateOptions, ...]
    columns: pa.Schema
    codes: dict[tuple[str, ...], Codes]
    values: dict[str, Codes]
    pasts: list[Past]
    priors: list[Past | None]
    newest: int | float | None = None

    @classmethod
    def empty(cls, aggregates: Sequence[AggregateOptions], columns: pa.Schema) -> AggregateState:
        """The state before any event."""
        ticks = ticks_per_second(columns.field(aggregates[0].time).type)
        names = dict.fromkeys(name for aggregate in aggregates for name in aggregate.columns)
        return cls(
            tuple(aggregates),
            pa.schema([columns.field(name) for name in names]),
            {aggregate.keys: Codes(map(columns.field, aggregate.keys)) for aggregate in aggregates},
            {
                aggregate.of: Codes([columns.field(aggregate.of)])
                for aggregate in aggregates
                if aggregate.of is not None and not adds(aggregate)
            },
            [Past(aggregate, ticks, 0) for aggregate in aggregates],
            [
                Past(overall(aggregate), ticks, 1) if has_prior(aggregate) else None
                for aggregate in aggregates
            ],
        )

    @property
    def ticks(self) -> int | None:
        """Units of a second of the times."""
        return ticks_per_second(self.columns.field(self.time).type)

    @property
    def time(self) -> str:
        """The column of the times, which all aggregates share."""
        return self.aggregates[0].time

    @cached_property
    def roles(self) -> dict[str, str]:
        """The key that names each column, for errors."""
        return {
            name: f"data.aggregates {aggregate.name!r}: {role}"
            for aggregate in reversed(self.aggregates)
            for role, names in aggregate.roles.items()
            for name in names
        }

    def times(self, table: pa.Table, where: str) -> np.ndarray:
        """The times of some rows."""
        return to_ticks(table[self.time], self.time, "data.aggregates: time", where)

    def keys(self, table: pa.Table) -> dict[tuple[str, ...], np.ndarray]:
        """The number of each row's key, by the columns of `by`."""
        return {columns: codes.encode(table) for columns, codes in self.codes.items()}

    def measured(
        self, table: pa.Table, where: str, first_row: int = 0
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """The result of `measure` for each aggregate."""
        return [
            measure(table, aggregate, self._values_of(aggregate), where, first_row)
            for aggregate in self.aggregates
        ]

    def _values_of(self, aggregate: AggregateOptions) -> Codes | None:
        return None if adds(aggregate) else self.values[aggregate.of or ""]

    def save(self, folder: Path) -> None:
        """Writes the definition as JSON, and the state of each aggregate as Parquet."""
        folder.mkdir(parents=True)
        pq.write_table(self.columns.empty_table(), folder / _COLUMNS)
        for number, (aggregate, past) in enumerate(zip(self.aggregates, self.pasts, strict=True)):
            codes = self.codes[aggregate.keys]
            used = np.flatnonzero(past.totals.any(axis=1))
            parts = dict(zip(PARTS[aggregate.kind], past.totals[used].T, strict=True))
            _write(folder / f"{number}.totals.parquet", codes, used, parts)
            parts = dict(zip(PARTS[aggregate.kind], past.parts.T, strict=True))
            if not adds(aggregate):
                parts["value"] = self.values[aggregate.of or ""].rows(parts["value"])[0]
            _write(
                folder / f"{number}.events.parquet", codes, past.key, {"time": past.time, **parts}
            )
        write_json(
            folder / DEFINITION,
            {
                "format": 1,
                "newest": self.newest,
                "aggregates": self._definitions,
                "priors": [past and _plain(past) for past in self.priors],
            },
        )

    @classmethod
    def load(cls, folder: Path) -> AggregateState:
        """The state that `save` wrote."""
        saved = _definition(folder)
        options = [AggregateOptions.model_validate(table) for table in saved["aggregates"]]
        with open_parquet(folder / _COLUMNS) as file:
            state = cls.empty(options, file.schema_arrow)
        state.merge(folder)
        return state

    def merge(self, folder: Path) -> None:
        """Adds the events of a saved state of the same definitions.

        Raises:
            PipelineError: The definitions differ.
        """
        saved = _definition(folder)
        if saved["aggregates"] != self._definitions:
            raise PipelineError(
                f"{folder}: holds other definitions of aggregates; states are merged only if "
                "`data.aggregates` is the same. Make it again with `recsys-attn ingest`."
            )
        times = [time for time in (self.newest, saved["newest"]) if time is not None]
        self.newest = max(times, default=None)
        for number, (aggregate, past) in enumerate(zip(self.aggregates, self.pasts, strict=True)):
            key, totals = self._read(folder / f"{number}.totals.parquet", aggregate)
            past.grow(len(self.codes[aggregate.keys]))
            if len(key):
                past.totals[key] += _parts(aggregate, totals)
            key, events = self._read(folder / f"{number}.events.parquet", aggregate)
            past.grow(len(self.codes[aggregate.keys]))
            parts = (
                _parts(aggregate, events) if adds(aggregate) else self._encoded(aggregate, events)
            )
            past.add(key, events["time"].to_numpy(), parts)
        for prior, saved_prior in zip(self.priors, saved["priors"], strict=True):
            if prior is not None:
                prior.totals = prior.totals + np.array(saved_prior["totals"], np.int64)
                at, parts = np.array(saved_prior["time"]), np.array(saved_prior["parts"], np.int64)
                prior.add(np.zeros(len(at), np.int64), at, parts)
        for past_or_prior in filter(None, (*self.pasts, *self.priors)):
            if self.newest is not None:
                past_or_prior.forget(self.newest)

    @property
    def _definitions(self) -> list[dict[str, Any]]:
        return [aggregate.model_dump(mode="json") for aggregate in self.aggregates]

    def _read(self, path: Path, aggregate: AggregateOptions) -> tuple[np.ndarray, pa.Table]:
        with open_parquet(path) as file:
            table = file.read()
        keys = table.select([_KEY(name) for name in aggregate.keys])
        return self.codes[aggregate.keys].encode(keys.rename_columns(aggregate.keys)), table

    def _encoded(self, aggregate: AggregateOptions, events: pa.Table) -> np.ndarray:
        values = events.select(["value"]).rename_columns([aggregate.of])
        return self.values[aggregate.of or ""].encode(values)[:, None]


def _definition(folder: Path) -> dict[str, Any]:
    return read_json(folder / DEFINITION, "Make it again with `recsys-attn ingest`.")


def adds(aggregate: AggregateOptions) -> bool:
    """Whether the parts of its events are added up."""
    return aggregate.kind != "distinct"


def has_prior(aggregate: AggregateOptions) -> bool:
    """Whether its prior is the rate of all earlier events."""
    return (
        aggregate.kind == "rate" and aggregate.prior_rate is None and aggregate.prior_strength > 0
    )


def overall(aggregate: AggregateOptions) -> AggregateOptions:
    """The aggregate over all time, for the running prior."""
    return aggregate.model_copy(update={"window": None, "last": None})


def _write(path: Path, codes: Codes, keys: np.ndarray, columns: dict[str, Any]) -> None:
    table = codes.rows(keys)
    table = table.rename_columns([_KEY(name) for name in table.column_names])
    for name, values in columns.items():
        table = table.append_column(name, pa.array(values))
    pq.write_table(table, path, compression="zstd")


def _parts(aggregate: AggregateOptions, table: pa.Table) -> np.ndarray:
    return np.stack([table[name].to_numpy() for name in PARTS[aggregate.kind]], axis=1)


def _plain(past: Past) -> dict[str, list[object]]:
    arrays = {"totals": past.totals, "time": past.time, "parts": past.parts}
    return {name: values.tolist() for name, values in arrays.items()}
