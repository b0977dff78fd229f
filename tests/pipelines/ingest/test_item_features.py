"""The item table's features in the rows, and the errors."""

import dataclasses

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.experiment.config import load_experiment
from pipelines.ingest import ingest
from pipelines.ingest.data_options import DataOptions
from pipelines.ingest.item_features import item_table
from recsys_attn.id_transforms import Hash
from recsys_attn.schema import Categorical, Numeric, Schema, Sequence, Task
from serving.state.errors import DataError

SCHEMA = Schema(
    (
        Categorical("item", dtype="int64"),
        Numeric("price"),
        Sequence("seen", shares="item", dtype="int64"),
    ),
    (Task("click"),),
)
CATALOGUE = pa.table({"item": [1, 2, 3, 4, 5, 6], "price": [1.0, 2.0, None, 4.0, 5.0, 6.0]})


def log(rows=400, seed=0, **columns):
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "user": rng.integers(0, 9, rows),
            "item": rng.integers(1, 9, rows),  # 7 and 8 are not in the table
            "time": np.arange(rows),
            "click": np.ones(rows, np.int8),
            **columns,
        }
    )


def options(folder, table, catalogue=CATALOGUE, negatives=2, **items):
    pq.write_table(table, folder / "log.parquet")
    pq.write_table(catalogue, folder / "items.parquet")
    return DataOptions(
        source="parquet",
        path=str(folder / "log.parquet"),
        histories=({"name": "seen", "of": "item", "by": "user", "time": "time", "max_length": 3},),
        items={
            "key": "item",
            "path": str(folder / "items.parquet"),
            "negatives": negatives,
            **items,
        },
    )


def rows_of(folder, split):
    return pq.read_table(folder / split).to_pylist()


def test_rows_have_the_features_of_their_items(tmp_path):
    made = ingest(options(tmp_path, log()), SCHEMA, 0, tmp_path / "data")
    prices = dict(zip(CATALOGUE["item"].to_pylist(), CATALOGUE["price"].to_pylist(), strict=True))
    for split in ("train", "valid", "test"):
        rows = rows_of(tmp_path / "data", split)
        assert len(rows) == made["rows"][split]
        for row in rows:
            assert row["price"] == prices.get(row["item"])
    assert made["request"] == "request"
    saved = pq.read_table(tmp_path / "data" / "items.parquet")
    train = [row["item"] for row in rows_of(tmp_path / "data", "train")]
    assert saved["positives of the train rows"].to_pylist() == [train.count(i) for i in range(1, 7)]


@pytest.mark.parametrize("unseen", [True, False])
def test_validation_and_test_get_the_same_draws_always(tmp_path, unseen):
    chosen = options(tmp_path, log(), unseen=unseen)
    ingest(chosen, SCHEMA, 5, tmp_path / "one")
    ingest(chosen, SCHEMA, 5, tmp_path / "two")
    assert all(row["click"] == 1 for row in rows_of(tmp_path / "one", "train"))
    seen_drawn = 0
    for split in ("valid", "test"):
        rows = rows_of(tmp_path / "one", split)
        assert rows == rows_of(tmp_path / "two", split)
        requests = {row["request"]: [] for row in rows}
        for row in rows:
            requests[row["request"]].append(row)
        firsts = 0
        for request in requests.values():
            items = [row["item"] for row in request]
            (positive,) = [row for row in request if row["click"]]
            assert len(set(items)) == len(items) == 3
            assert len({(row["user"], *row["seen"]) for row in request}) == 1
            drawn = set(items) - {positive["item"]}
            assert drawn <= set(range(1, 7))
            seen_drawn += bool(drawn & set(positive["seen"]))
            firsts += request[0]["click"]
        assert 0 < firsts < len(requests)  # the place of a row says nothing
    assert (seen_drawn == 0) == unseen


def test_features_of_other_names_have_the_same_rows(tmp_path):
    named = Schema(
        (
            Categorical("hashed", dtype="int64", transform=Hash(3), column="item"),
            Numeric("cost", column="price"),
            Numeric("number", column="item"),
            Sequence("hashes", shares="hashed", dtype="int64", column="seen"),
        ),
        SCHEMA.tasks,
    )
    chosen = options(tmp_path, log())
    for name, schema in (("one", SCHEMA), ("two", named)):
        ingest(chosen, schema, 5, tmp_path / name)
    for split in ("train", "valid", "test"):
        assert rows_of(tmp_path / "one", split) == rows_of(tmp_path / "two", split)
    tables = [pq.read_table(tmp_path / name / "items.parquet") for name in ("one", "two")]
    assert tables[0].equals(tables[1])


def test_items_without_a_table_are_those_of_the_train_rows(tmp_path):
    chosen = options(tmp_path, log(), path=None)
    schema = dataclasses.replace(SCHEMA, features=(SCHEMA["item"], SCHEMA["seen"]))
    made = ingest(chosen, schema, 0, tmp_path / "data")
    saved = pq.read_table(tmp_path / "data" / "items.parquet")
    assert saved["item"].to_pylist() == list(range(1, 9))
    assert made["labels"]["click"]["test"] == [made["rows"]["test"], made["rows"]["test"] // 3]


def test_a_part_of_the_item_table_may_be_empty(tmp_path):
    expected = item_table([_parts(tmp_path / "a", CATALOGUE)], "item", SCHEMA)
    untyped = pa.table({"item": pa.nulls(0), "price": pa.nulls(0)})
    for number, empty in enumerate((CATALOGUE[:0], untyped, untyped.select(["price"]))):
        found = item_table([_parts(tmp_path / str(number), empty, CATALOGUE)], "item", SCHEMA)
        assert found.table.equals(expected.table)


def _parts(folder, *tables):
    folder.mkdir()
    for number, table in enumerate(tables):
        pq.write_table(table, folder / f"{number}.parquet")
    return folder


PRICED = {"price": np.ones(400)}


@pytest.mark.parametrize(
    ("table", "catalogue", "items", "message"),
    [
        (log(**PRICED), CATALOGUE, {}, "'price' is in the rows and in the item table"),
        (log(), CATALOGUE.slice(0, 0), {}, "expected a row for each item"),
        (log(), pa.concat_tables([CATALOGUE] * 2), {}, "2 rows of the item 1, and 5 more"),
        (log(), CATALOGUE.select(["item"]), {}, "no value of the candidate feature 'price'"),
        (log(**PRICED), CATALOGUE, {"path": None}, "no value of the candidate feature 'price'"),
        (log(), CATALOGUE.rename_columns(["id", "price"]), {}, "'item' \\(data.items.key\\)"),
        (log(), CATALOGUE, {"negatives": 0}, "Set `data.items.negatives`"),
        (log(request=np.arange(400)), CATALOGUE, {}, "makes a column 'request'"),
        (log().drop_columns(["item"]), CATALOGUE, {}, "the column 'item'"),
    ],
)
def test_what_cannot_be_joined_or_drawn_is_refused(tmp_path, table, catalogue, items, message):
    with pytest.raises(DataError, match=message):
        ingest(options(tmp_path, table, catalogue, **items), SCHEMA, 0, tmp_path / "data")


FILE = """
name = "x"
data = {{ source = "parquet", path = "log.parquet"{items} }}
features = [{{ kind = "categorical", name = "item" }}, {{ kind = "numeric", name = "price" }}]
tasks = [{{ name = "click" }}]
{more}
"""


@pytest.mark.parametrize(
    ("items", "more", "message"),
    [
        (', items = { key = "price" }', "", "`data.items.key` must name a categorical feature"),
        ("", "training.negatives = { count = 3 }", "Add the table `data.items`"),
        (
            ', items = { key = "item" }',
            'training.negatives = { by = "batch", pool = 3 }',
            "`pool` needs",
        ),
    ],
)
def test_wrong_tables_of_the_file_are_refused(tmp_path, items, more, message):
    path = tmp_path / "x.toml"
    path.write_text(FILE.format(items=items, more=more))
    with pytest.raises(DataError, match=message):
        load_experiment(path)
