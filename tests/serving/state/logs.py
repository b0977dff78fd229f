"""Logs as they arrive, their histories, and what `ingest` makes of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.ingest.data_options import DataOptions
from pipelines.ingest.ingest import ingest
from serving.state.definitions.aggregate_options import AggregateOptions
from serving.state.definitions.definition import StateDefinition
from serving.state.definitions.history_options import HistoryOptions
from serving.state.online.reader import StateReader
from serving.state.saved import SavedState
from serving.state.stores.store import Store
from tests.support.event_logs import definitions

TIME = {"time": "time"}
HISTORIES = (
    HistoryOptions(name="liked", of="item", by="user", where="click", max_length=3, **TIME),
    HistoryOptions(name="named", of="name", by="user", max_length=5, **TIME),
    HistoryOptions(name="paid", of="price", by="item", max_length=4, forget_after=6.0, **TIME),
    HistoryOptions(name="ages", of="time", by="user", max_length=5, ages=True, **TIME),
)
NAMES = [feature.name for feature in (*definitions(), *HISTORIES)]
LATE = 9.0  # rows are up to 8 late


def arrivals(rows: int = 113, seed: int = 0) -> pa.Table:
    """A log in the order of arrival: rows late, twice, of equal times, and without keys."""
    rng = np.random.default_rng(seed)

    def some(values: np.ndarray) -> pa.Array:
        return pa.array(values, mask=rng.random(rows) < 0.1)

    names = np.array(["", "näh", "a" * 70, "x"])
    table = pa.table(
        {
            "user": some(rng.integers(5, size=rows).astype(str)),
            "item": some(rng.integers(7, size=rows)),
            "time": np.maximum(np.arange(rows) // 3 - rng.integers(9, size=rows), 0),
            "price": some(rng.normal(size=rows) * 10.0 ** rng.integers(-3, 4, rows)),
            "click": some(rng.integers(2, size=rows)),
            "name": some(names[rng.integers(4, size=rows)]),
            "id": some(np.arange(rows).astype(str)),
        }
    )
    unlabelled = table.set_column(4, "click", pa.nulls(rows, pa.int64()))
    parts = []
    for row in range(rows):
        arrives_again, has_no_label = rng.random(2) < (0.2, 0.5)
        first = unlabelled if arrives_again and has_no_label else table
        parts.append((row, first.slice(row, 1)))
        if arrives_again:
            parts.append((row + 3.5, table.slice(row, 1)))
    parts.sort(key=lambda part: part[0])
    return pa.concat_tables([part for _, part in parts]).combine_chunks()


def ingested(folder: Path, rows: pa.Table, **options: Any) -> tuple[pa.Table, SavedState]:
    """Rows with the columns that `ingest` makes of them, and the state after them."""
    folder.mkdir(parents=True)
    numbered = rows.append_column("row", pa.array(np.arange(rows.num_rows)))
    pq.write_table(numbered, folder / "rows.parquet")
    defaults: dict[str, Any] = {
        "source": "parquet",
        "path": str(folder / "rows.parquet"),
        "aggregates": tuple(definitions()),
        "histories": HISTORIES,
        "late": LATE,
        "event_id": "id",
        "split": {"by": "hash", "column": "row", "valid": 0.3, "test": 0.3},
    }
    data = DataOptions(**{**defaults, **options})
    ingest(data, None, 0, folder / "data")
    splits = ("train", "valid", "test")
    made = pa.concat_tables(pq.read_table(folder / "data" / split) for split in splits)
    return made.sort_by("row"), SavedState.open(folder / "data" / "state")


def definition() -> StateDefinition:
    """The features over `arrivals`."""
    empty = StateDefinition(tuple(definitions()), HISTORIES, pa.schema([]), LATE, "id")
    return empty.of_columns(arrivals(3).schema)


def small_definition(**changes: Any) -> StateDefinition:
    """A few features over `arrivals`: of users, of items, and of items under their user."""
    rates = [
        AggregateOptions(kind="rate", of="click", by=by, name=f"rate {by}", **TIME)
        for by in ("user", "item", ("user", "item"))
    ]
    whole = StateDefinition((*rates,), HISTORIES[:1], pa.schema([]), LATE, "id")
    return replace(whole, **changes).of_columns(arrivals(3).schema)


def read_values(store: Store, of: StateDefinition, moment: int = 99) -> list[dict[str, Any]]:
    """The values of all users of `arrivals` with all items."""
    values = [
        StateReader(store, of).values({"user": str(user)}, {"item": range(7)}, moment)
        for user in range(5)
    ]
    return [
        {**of_user.context, **{name: list(v) for name, v in of_user.candidates.items()}}
        for of_user in values
    ]
