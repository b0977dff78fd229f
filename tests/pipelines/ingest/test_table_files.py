"""CSV and Parquet files, folders and lists of them, and their errors."""

import pyarrow as pa
import pytest

from recsys_attn.schema import Categorical, Numeric, Schema, Sequence, Task
from serving.state.errors import DataError
from tests.pipelines.ingest.files import (
    THIRDS,
    read_all,
    read_split,
    run,
    write_parquet,
    write_text,
)
from tests.support import s3

SCHEMA = Schema(
    features=(
        Categorical("user", side="context"),
        Categorical("item", dtype="int64"),
        Numeric("price"),
        Sequence("clicked", shares="item", dtype="int64"),
        Sequence("words", history="words"),
    ),
    tasks=(Task("click"),),
)
ROWS = 60


def _columns(first=0, **changed):
    rows = range(first, first + ROWS)
    columns = {
        "request": [k // 3 for k in rows],
        "user": [f"u{k // 3 % 7}" for k in rows],
        "item": [k % 5 for k in rows],
        "price": [k / 4 for k in rows],
        "clicked": [list(range(k // 3 % 4)) for k in rows],
        "words": [["x", "y"] if k // 3 % 2 else None for k in rows],
        "click": [k % 2 for k in rows],
        "time": list(rows),
    }
    return columns | changed


def _csv(columns):
    def cell(value):
        if value is None:
            return ""
        return "|".join(map(str, value)) if isinstance(value, list) else str(value)

    lines = [",".join(map(cell, row)) for row in zip(*columns.values(), strict=True)]
    return "\n".join([",".join(columns), *lines]) + "\n"


def test_parquet_files_folders_and_lists(tmp_path):
    write_parquet(tmp_path / "in" / "b.parquet", **_columns(ROWS))
    write_parquet(tmp_path / "in" / "a.parquet", **_columns())
    (tmp_path / "in" / "_SUCCESS").write_text("")
    options = {"source": "parquet", "request": "request", "split": THIRDS}
    one = run(tmp_path / "1", SCHEMA, path=str(tmp_path / "in"), **options)
    files = [str(tmp_path / "in" / name) for name in ("a.parquet", "b.parquet")]
    two = run(tmp_path / "2", SCHEMA, path=files, **options)
    assert one == two
    assert sum(one["rows"].values()) == 2 * ROWS
    assert one["request"] == "request"
    assert one["labels"]["click"]["train"][0] == one["rows"]["train"]
    for split in ("train", "valid", "test"):
        assert read_split(tmp_path / "1", split).equals(read_split(tmp_path / "2", split))
    train = read_split(tmp_path / "1", "train")
    assert train["price"].type == pa.float32()
    assert sorted(set(train["request"].to_pylist())) == list(
        dict.fromkeys(train["request"].to_pylist())
    )


@pytest.mark.parametrize("where", ["one folder", "several", "a folder for each split", "a file"])
def test_parquet_at_a_uri_gives_what_local_files_give(tmp_path, where):
    below = ("train/", "valid/", "test/") if where == "a folder for each split" else ("", "2026/")
    split = {"by": "provided"} if where == "a folder for each split" else THIRDS
    for number, name in enumerate(below[: 1 if where == "a file" else None]):
        write_parquet(tmp_path / "in" / f"{name}a.parquet", **_columns(number * ROWS))
    paths = (tmp_path / "in").rglob("*.parquet")
    objects = {f"bucket/{p.relative_to(tmp_path)}": p.read_bytes() for p in paths}
    names = {"several": ["in/2026", "in/a.parquet"], "a file": ["in/a.parquet"]}.get(where, ["in"])
    options = {"source": "parquet", "request": "request", "split": split}
    local = [str(tmp_path / name) for name in names]
    expected = run(tmp_path / "1", SCHEMA, path=local, **options)
    with s3.serving(objects) as uri_options:
        uris = [f"s3://key:secret@bucket/{name}?{uri_options}" for name in names]
        assert run(tmp_path / "2", SCHEMA, path=uris, **options) == expected
    assert read_all(tmp_path / "2").equals(read_all(tmp_path / "1"))


@pytest.mark.parametrize("content", [None, b"PAR1 and no more"], ids=["gone", "damaged"])
def test_uri_errors_hide_secrets(tmp_path, content):
    with s3.serving({"bucket/in/a.parquet": content} if content else {}) as options:
        uri = f"s3://key:secret@bucket/in?{options}"
        with pytest.raises(DataError, match=r"^s3://bucket/in(/a\.parquet: is not a| holds no)"):
            run(tmp_path / "out", SCHEMA, source="parquet", path=uri, split=THIRDS)


def test_csv_gives_what_parquet_gives(tmp_path):
    write_text(tmp_path / "rows.csv.gz", _csv(_columns()))
    write_parquet(
        tmp_path / "rows.parquet",
        **_columns(clicked=[past or None for past in _columns()["clicked"]]),
    )
    for kind, name in (("csv", "rows.csv.gz"), ("parquet", "rows.parquet")):
        run(tmp_path / kind, SCHEMA, source=kind, path=str(tmp_path / name), split=THIRDS)
    assert read_all(tmp_path / "csv").equals(read_all(tmp_path / "parquet"))


def test_folders_named_by_split_are_the_providers_split(tmp_path):
    for split, rows in (("train", 0), ("test", ROWS)):
        write_parquet(tmp_path / "in" / split / "part-0.parquet", **_columns(rows))
    summary = run(
        tmp_path / "out",
        SCHEMA,
        source="parquet",
        path=str(tmp_path / "in"),
        split={"by": "provided", "valid": 0.3},
    )
    assert summary["rows"]["test"] == ROWS
    assert read_split(tmp_path / "out", "test")["time"].to_pylist() == list(range(ROWS, 2 * ROWS))


def test_histories_of_any_table(tmp_path):
    write_parquet(tmp_path / "rows.parquet", **_columns())
    run(
        tmp_path / "out",
        SCHEMA,
        source="parquet",
        path=str(tmp_path),
        split={"by": "time", "column": "time", "valid": 0.2, "test": 0.2},
        histories=[{"name": "past", "of": "item", "by": "user", "time": "time", "where": "click"}],
    )
    rows = read_all(tmp_path / "out").to_pylist()
    for row in rows:
        assert row["past"] == [
            past["item"]
            for past in rows
            if past["user"] == row["user"] and past["time"] < row["time"] and past["click"]
        ]


def test_a_task_without_negatives_is_refused(tmp_path):
    write_parquet(tmp_path / "rows.parquet", **_columns(click=[1] * ROWS))
    with pytest.raises(DataError, match="task 'click' has no negative rows in the split 'tr"):
        run(tmp_path / "out", SCHEMA, source="parquet", path=str(tmp_path), split=THIRDS)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"price": ["cheap"] * ROWS}, "column 'price': expected a number, .*invalid value 'cheap'"),
        ({"clicked": ["1|x"] * ROWS}, "column 'clicked': expected int64 values separated by '|'"),
        ({"price": ["nan"] * ROWS}, "column 'price': expected finite numbers, received nan"),
    ],
)
def test_one_clear_error_of_a_csv(changed, message, tmp_path):
    write_text(tmp_path / "rows.csv", _csv(_columns(**changed)))
    with pytest.raises(DataError, match=message):
        run(tmp_path / "out", SCHEMA, source="csv", path=str(tmp_path), split=THIRDS)


def test_only_parquet_is_read_from_a_uri(tmp_path):
    message = r"'csv' reads local files; .* Received: s3://bucket/rows\.csv\. Copy"
    with pytest.raises(DataError, match=message):
        run(tmp_path / "out", SCHEMA, source="csv", path="s3://k:s@bucket/rows.csv", split=THIRDS)
