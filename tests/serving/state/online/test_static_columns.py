"""Features over time of static features: events and requests have ids, the store the rest."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.ingest import ingest
from pipelines.ingest.data_options import DataOptions
from recsys_attn.schema import Categorical, Numeric, Schema, Sequence, Task
from serving.state.errors import DataError
from serving.state.following.dead_letters import DeadLetters
from serving.state.following.follower import Follower
from serving.state.following.open_log import open_log
from serving.state.online.describe import group_summaries, key_summary
from serving.state.online.load import load_state
from serving.state.online.reader import StateReader
from serving.state.online.writer import StateWriter
from serving.state.saved import SavedState
from serving.state.stores.lmdb_store import LmdbStore
from serving.state.stores.store import Store

ROWS, PAST = 89, 53
NAMES = ("shop_ctr", "pair", "of_country", "spent", "shops")
SCHEMA = Schema(
    (
        *(Numeric(name) for name in NAMES[:3]),
        Numeric("spent", side="context"),
        Sequence("shops"),
        Categorical("item", dtype="int64"),
        Categorical("shop"),
        Categorical("color"),
        Numeric("price"),
        Categorical("country", side="context"),
    ),
    (Task("click"),),
)
ITEMS = pa.table(
    {
        "item": range(7),
        "shop": ["a", "ö", "a", None, "ö", "b", ""],
        "color": ["red"] * 7,  # which no feature over time reads
        "price": [0.1, None, 2.3, 0.7, 5.0, 0.0, 1.5],
    }
)
USERS = pa.table({"user": ["0", "1", "2"], "country": ["fi", "se", "fi"]})
BY = {"time": "time"}
AGGREGATES = (
    {"name": "shop_ctr", "kind": "rate", "of": "click", "by": "shop", **BY},
    {"name": "pair", "kind": "count", "by": ("user", "shop"), **BY},
    {"name": "of_country", "kind": "count", "by": ("country", "item"), **BY},
    {"name": "spent", "kind": "sum", "of": "price", "by": "user", "where": "click", **BY},
)
HISTORIES = ({"name": "shops", "of": "shop", "by": "user", "max_length": 5, **BY},)


def log() -> pa.Table:
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "user": rng.integers(5, size=ROWS).astype(str),
            "item": rng.integers(9, size=ROWS),
            "time": np.arange(ROWS) // 2,
            "click": rng.integers(2, size=ROWS),
        }
    )


def ingested(folder: Path, rows: pa.Table) -> tuple[list[dict[str, Any]], SavedState]:
    """The rows with the columns that `ingest` makes of them, and the state after them."""
    folder.mkdir()
    for name, table in (("log", rows), ("items", ITEMS), ("users", USERS)):
        pq.write_table(table, folder / f"{name}.parquet")
    options = DataOptions(
        source="parquet",
        path=str(folder / "log.parquet"),
        aggregates=AGGREGATES,
        histories=HISTORIES,
        items={"key": "item", "path": str(folder / "items.parquet")},
        users={"key": "user", "path": str(folder / "users.parquet")},
        time_unit="s",
        split={"by": "time", "column": "time", "valid": 0.2, "test": 0.2},
    )
    ingest(options, SCHEMA, 0, folder / "data")
    made = pa.concat_tables(pq.read_table(folder / "data" / s) for s in ("train", "valid", "test"))
    return made.to_pylist(), SavedState.open(folder / "data" / "state")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[dict[str, Any]], SavedState]:
    """The rows after the past, as `ingest` makes them of the whole log, and the past's state."""
    folder = tmp_path_factory.mktemp("static")
    whole, _ = ingested(folder / "whole", log())
    _, saved = ingested(folder / "past", log().slice(0, PAST))
    return whole[PAST:], saved


def read(store: Store, saved: SavedState, row: dict[str, Any]) -> dict[str, Any]:
    reader = StateReader(store, saved.definition)
    values = reader.values({"user": row["user"]}, {"item": [row["item"]]}, row["time"])
    return {**values.context, **{name: of[0] for name, of in values.candidates.items()}}


def test_state_has_the_features_that_are_read(made: Any) -> None:
    of_users, of_items = made[1].definition.static
    assert of_users.columns.names == ["user", "country"]
    assert of_items.columns.names == ["item", "shop", "price"]
    assert set(made[1].definition.event_columns.names) == {"user", "item", "time", "click"}


def test_pushed_ids_give_what_the_rows_have(made: Any, store: Store) -> None:
    rows, saved = made
    load_state(saved, store)
    writer = StateWriter(store, saved.definition)
    for row, event in zip(rows, log().to_pylist()[PAST:], strict=True):
        values = read(store, saved, event)
        for name in NAMES[:4]:
            expected = np.nan if row[name] is None else row[name]
            np.testing.assert_array_equal(values[name], np.float32(expected), name)
        shops = [[shop or None for shop in of] for of in (values["shops"], row["shops"])]
        assert shops[0] == shops[1]  # "" and null are one missing value
        writer.push([{**event, "shop": "a column of the table does not count"}])


def test_followed_log_has_ids_alone(made: Any, tmp_path: Path) -> None:
    _, saved = made
    stores = [LmdbStore(tmp_path / name) for name in ("pushed", "followed")]
    for store in stores:
        load_state(saved, store)
    raw = log().slice(PAST)
    StateWriter(stores[0], saved.definition).push(raw.to_pylist())
    (tmp_path / "log").mkdir()
    pq.write_table(raw.slice(0, 17), tmp_path / "log/1.parquet")
    lines = [json.dumps(row) + "\n" for row in raw.slice(17).to_pylist()]
    (tmp_path / "log/2.jsonl").write_text("".join([*lines, '{"user": "1"}\n']))
    writer = StateWriter(stores[1], saved.definition)
    source = open_log(str(tmp_path / "log"), saved.definition, stores[1], writer, {b"": {}}, print)
    letters = DeadLetters(tmp_path / "dead.jsonl")
    Follower(stores[1], saved.definition, writer, source, letters).catch_up()
    assert letters.counts == {"invalid": 1}
    for event in log().to_pylist():
        pushed, followed = (read(store, saved, {**event, "time": 99}) for store in stores)
        np.testing.assert_equal(followed, pushed)


def test_show_has_static_features(made: Any, tmp_path: Path) -> None:
    _, saved = made
    store = LmdbStore(tmp_path / "store")
    load_state(saved, store)
    groups = {group.of: group.keys for group in group_summaries(store, saved.definition)}
    assert groups["item"] == ITEMS.num_rows
    summary = key_summary(store, saved.definition, {"user": "1"}, "99")
    values = {feature.name: feature.value for feature in summary.features}
    assert values["country"] == "se"
    assert set(values) == {"country", "spent", "shops"}
    of_user = [row["time"] for row in log().to_pylist()[:PAST] if row["user"] == "1"]
    assert summary.newest == str(max(of_user))
    (price,) = [f for f in key_summary(store, saved.definition, {"item": "2"}, "99").features
                if f.name == "price"]  # fmt: skip
    assert price.value == np.float32(2.3)
    pair = key_summary(store, saved.definition, {"user": "1", "item": "2"}, "99")
    rows = {"user": "1", "item": 2, "time": 99}
    of_pair = {of.name: of.value for of in pair.features if of.name in NAMES[:3]}
    assert of_pair == {name: read(store, saved, rows)[name] for name in NAMES[:3]}


def test_values_of_the_request_win(made: Any, tmp_path: Path) -> None:
    store = LmdbStore(tmp_path / "store")
    load_state(made[1], store)
    reader = StateReader(store, made[1].definition)
    ids = {"item": [0, 1, 2, 8]}
    of_shop = reader.values({"user": "1"}, {**ids, "shop": ["b"] * 4}, 99).candidates["shop_ctr"]
    of_item = reader.values({"user": "1"}, {"item": [5]}, 99).candidates["shop_ctr"]
    np.testing.assert_array_equal(of_shop, np.repeat(of_item, 4))
    with pytest.raises(DataError, match="the column 'item'"):
        StateWriter(store, made[1].definition).push([{"user": "1", "time": 99, "click": 1}])
