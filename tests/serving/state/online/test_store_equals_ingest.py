"""A store gives what `ingest` gives a row, to the bit, however the events have arrived."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from serving.state.definitions.definition import StateDefinition
from serving.state.keyed.blobs import decode, encode
from serving.state.online.group_batch import Places
from serving.state.online.load import load_state
from serving.state.online.reader import StateReader
from serving.state.online.writer import StateWriter
from serving.state.stores.open_store import open_store
from serving.state.stores.store import Store
from tests.serving.state.logs import NAMES, arrivals, definition, ingested

Expected = Callable[[int, int], list[dict[str, Any]]]
USERS = ["0", "3", "4", None, "new"]
ITEMS = [*range(7), None, 99]
EMPTY = ("price", "click", "name", "id")  # of rows that only ask


def read(store: Store, of: StateDefinition, moment: int) -> list[dict[str, Any]]:
    """The values of every user with every item."""
    rows = []
    for user in USERS:
        values = StateReader(store, of).values({"user": user}, {"item": ITEMS}, moment)
        for place in range(len(ITEMS)):
            of_item = {name: column[place] for name, column in values.candidates.items()}
            rows.append({**values.context, **of_item})
    return [{name: plain(row[name]) for name in NAMES} for row in rows]


def plain(value: Any) -> Any:
    if isinstance(value, list):
        return value
    return None if value is None or np.isnan(value) else float(value)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Expected:
    """The values that `ingest` gives, computed once for both stores."""
    return cache(lambda seed, moment: _expected(tmp_path_factory.mktemp("log"), seed, moment))


def _expected(folder: Path, seed: int, moment: int) -> list[dict[str, Any]]:
    """The values that `ingest` gives rows of that time, of every user with every item."""
    log = arrivals(seed=seed)
    asked = [(user, item) for user in USERS for item in ITEMS]
    probes = pa.table(
        {
            "user": [user for user, _ in asked],
            "item": [item for _, item in asked],
            "time": [moment] * len(asked),
            **{
                name: pa.nulls(len(asked), log.schema.field(name).type)
                for name in ("price", "click", "name", "id")
            },
        }
    )
    made, _ = ingested(folder / "data", pa.concat_tables([log, probes]))
    rows = made.slice(log.num_rows).select(NAMES).to_pylist()
    return [{name: plain(row[name]) for name in NAMES} for row in rows]


def batches(log: pa.Table, first: int, seed: int) -> Iterator[tuple[int, pa.Table]]:
    """Parts of a log of one to 20 rows, and some of them again."""
    rng = np.random.default_rng(seed)
    while first < log.num_rows:
        size = int(rng.integers(1, 20))
        yield first, log.slice(first, size)
        first += size if rng.random() < 0.7 else size // 2  # else after a crash, half of it again


@pytest.mark.parametrize("loaded", [0, 41])
@pytest.mark.parametrize("seed", range(2))
def test_any_order_and_any_restart(
    url: str, expected: Expected, tmp_path: Path, loaded: int, seed: int
) -> None:
    log, of = arrivals(seed=seed), definition()
    store = open_store(url)
    if loaded:
        _, saved = ingested(tmp_path / "past", log.slice(0, loaded))
        load_state(saved, store)
        assert saved.definition == of
    for first, rows in batches(log, loaded, seed):
        added = StateWriter(store, of).add(
            rows.select(of.columns.names), Places.of(7, first, rows.num_rows)
        )
        assert not added.late.any()
        store.close()
        store = open_store(url)
    newest = log["time"].to_numpy().max()
    for moment in (newest + 1, newest + 5):
        assert read(store, of, moment) == expected(seed, moment)
    store.close()


def test_blobs_are_read_as_they_were_written(tmp_path: Path) -> None:
    _, saved = ingested(tmp_path / "past", arrivals())
    for group in saved.definition.groups:
        for _, blobs in saved.blobs(group):
            again = encode(decode(group, blobs))
            assert again == blobs
            mixed = decode(group, [None, *blobs[:2], None])
            assert encode(mixed)[1:-1] == blobs[:2]
