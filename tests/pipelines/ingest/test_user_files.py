"""Unusual files: dictionary columns, no rows, repeated names, mixed folders."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.ingest import ingest
from pipelines.ingest.data_options import DataOptions
from pipelines.ingest.source import SPLITS
from recsys_attn.schema import Categorical, Numeric, Schema, Task
from serving.state.errors import DataError
from tests.pipelines.ingest.files import (
    THIRDS,
    read_all,
    read_split,
    run,
    write_parquet,
    write_text,
)

SCHEMA = Schema(
    features=(Categorical("user", side="context"), Categorical("item"), Numeric("price")),
    tasks=(Task("click", mask="asked"),),
)
ROWS = 59
PAST = {"name": "past", "of": "item", "by": "user", "time": "time"}


def _columns(first=0, **changed):
    rows = range(first, first + ROWS)
    columns = {
        "request": [f"r{k // 3}" for k in rows],
        "user": [f"u{k // 3 % 7}" for k in rows],
        "item": [f"i{k % 5}" for k in rows],
        "price": [k / 4 for k in rows],
        "click": [k // 2 % 2 for k in rows],
        "asked": [1] * ROWS,
        "time": [k // 3 for k in rows],
    }
    return columns | changed


def _ingest(tmp_path, source="parquet", name="in", **options):
    path = str(tmp_path / name)
    return run(tmp_path / "out", SCHEMA, source=source, path=path, **{"split": THIRDS, **options})


@pytest.mark.parametrize("by", ["hash", "user", "time"])
def test_coded_columns_are_their_values(by, tmp_path):
    column = {"hash": None, "user": "user", "time": "time"}[by]
    options = {
        "split": {"by": by, "column": column, "valid": 0.3, "test": 0.3},
        "histories": [PAST],
        "request": "request",
    }
    found = []
    for coded in (False, True):
        columns = _columns()
        for name in ("request", "user", "item", "time") if coded else ():
            columns[name] = pa.array(columns[name]).dictionary_encode()
        write_parquet(tmp_path / "in" / "rows.parquet", **columns)
        _ingest(tmp_path, **options)
        found.append(read_all(tmp_path / "out"))
    assert found[0].equals(found[1])


@pytest.mark.parametrize("histories", [[], [PAST]], ids=["plain", "histories"])
@pytest.mark.parametrize("name", ["no.parquet", "empty.csv", "header.csv"])
def test_a_file_without_rows(name, histories, tmp_path):
    if name == "no.parquet":
        write_parquet(tmp_path / name, **{k: pa.array(v)[:0] for k, v in _columns().items()})
    else:
        header = "" if name == "empty.csv" else ",".join(_columns()) + "\n"
        write_text(tmp_path / name, header)
    source = "parquet" if name == "no.parquet" else "csv"
    for request in (None, "request"):
        with pytest.raises(DataError, match=rf"{name}: holds no rows"):
            _ingest(tmp_path, source, name, histories=histories, request=request)


def test_a_name_that_two_columns_have(tmp_path):
    columns = _columns()
    table = pa.table([*map(pa.array, columns.values()), pa.array(columns["user"])],
                     names=[*columns, "user"])  # fmt: skip
    pq.write_table(table, tmp_path / "rows.parquet")
    with pytest.raises(DataError, match=r"rows\.parquet: has two columns 'user'"):
        _ingest(tmp_path, name="rows.parquet")
    write_text(tmp_path / "rows.csv", "user,user,click\na,b,1\n")
    with pytest.raises(DataError, match=r"rows\.csv: has two columns 'user'"):
        _ingest(tmp_path, "csv", "rows.csv")


@pytest.mark.parametrize("asked", [["1", "0", ""], ["1.0", "0.0", ""], ["True", "false", ""]])
def test_the_mask_of_a_csv(asked, tmp_path):
    columns = _columns(asked=[asked[k % 3] for k in range(ROWS)])
    lines = [",".join(map(str, row)) for row in zip(*columns.values(), strict=True)]
    write_text(tmp_path / "rows.csv", "\n".join([",".join(columns), *lines]))
    _ingest(tmp_path, "csv", "rows.csv")
    found = read_all(tmp_path / "out").sort_by("price")["asked"].to_pylist()
    assert found == [k % 3 == 0 for k in range(ROWS)]


@pytest.mark.parametrize("click", [["1", "0"], ["1.0", "0.0"], ["True", "false"], ["yes", "no"]])
def test_the_label_of_a_csv(click, tmp_path):
    columns = _columns(click=[click[k % 2] for k in range(ROWS)])
    lines = [",".join(map(str, row)) for row in zip(*columns.values(), strict=True)]
    write_text(tmp_path / "rows.csv", "\n".join([",".join(columns), *lines]))
    if click[0] == "yes":
        message = (
            r"rows\.csv: column 'click': expected a label of 0, 1, true.*'yes'.*Write 1 for yes"
        )
        with pytest.raises(DataError, match=message):
            _ingest(tmp_path, "csv", "rows.csv")
        return
    _ingest(tmp_path, "csv", "rows.csv")
    found = read_all(tmp_path / "out").sort_by("price")["click"].to_pylist()
    assert found == [1 - k % 2 for k in range(ROWS)]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"asked": [False] * ROWS}, "the mask 'asked' is false in every row"),
        ({"request": list(range(ROWS))}, r"b\.parquet: column 'request': expected string .* int64"),
        ({"request": [None] * 5 + ["a"] * 54}, r"b\.parquet: the column 'request' .* 5 nulls"),
    ],
    ids=["mask", "two types", "nulls"],
)
def test_columns_that_cannot_be_read_are_named(tmp_path, changed, message):
    if "asked" not in changed:
        write_parquet(tmp_path / "in" / "a.parquet", **_columns())
    write_parquet(tmp_path / "in" / "b.parquet", **_columns(60, **changed))
    with pytest.raises(DataError, match=message):
        _ingest(tmp_path, request="request")


@pytest.mark.parametrize("histories", [[], [PAST]], ids=["plain", "histories"])
def test_files_with_other_columns_and_another_order(histories, tmp_path):
    write_parquet(tmp_path / "in" / "a.parquet", **_columns(), note=[1] * ROWS, old=[2] * ROWS)
    other = dict(reversed(_columns(60).items()))
    other["price"] = np.arange(ROWS)
    write_parquet(tmp_path / "in" / "b.parquet", **other, note=["x"] * ROWS)
    summary = _ingest(tmp_path, histories=histories, request="request")
    assert sum(summary["rows"].values()) == 2 * ROWS
    assert list(summary["columns"]) == [*_columns(), *(["past"] if histories else [])]


def test_values_of_a_column_that_nobody_names_stop_nothing(tmp_path):
    wide = pa.array([2**63] * ROWS, pa.uint64())
    other = pa.array([[2**53 + 1]] * ROWS), pa.array(["x"] * ROWS)
    write_parquet(
        tmp_path / "in" / "a.parquet", **_columns(), junk=wide, more=other[0], note=other[1]
    )
    columns = {"junk": [1] * ROWS, "more": [[0.5]] * ROWS, "note": pa.nulls(ROWS)}
    write_parquet(tmp_path / "in" / "b.parquet", **_columns(60), **columns)
    summary = _ingest(tmp_path, request="request")
    assert sum(summary["rows"].values()) == 2 * ROWS
    assert list(summary["columns"]) == [*_columns(), "note"]


@pytest.mark.parametrize(
    "changed",
    [
        {"item": pa.nulls(ROWS)},
        {"item": pa.array(_columns()["item"], pa.large_string()).dictionary_encode()},
        {"item": pa.array(_columns()["item"]).cast(pa.binary())},
        {"time": pa.array(range(ROWS), pa.float64())},
        {"click": [k // 2 % 2 == 0 for k in range(ROWS)]},
    ],
    ids=["null", "dictionary", "binary", "float", "bool"],
)
@pytest.mark.parametrize("first", [False, True])
def test_files_of_other_types_with_a_history(changed, first, tmp_path):
    names = ("a.parquet", "b.parquet")[:: -1 if first else 1]
    write_parquet(tmp_path / "in" / names[0], **_columns(60))
    write_parquet(tmp_path / "in" / names[1], **_columns(120, **changed))
    summary = _ingest(tmp_path, histories=[PAST], request="request")
    assert sum(summary["rows"].values()) == 2 * ROWS
    assert summary["columns"]["item"] == "string"
    assert summary["columns"]["past"].startswith("list<")


def test_folders_of_partitions_and_of_other_engines(tmp_path):
    for number, day in enumerate(("2025-01-01", "2025-01-02", "2025-01-03")):
        write_parquet(tmp_path / "in" / f"dt={day}" / "a.parquet", **_columns(60 * number))
        for hidden in (f"dt={day}/_temporary/0/a.parquet", ".staging/a.parquet"):
            write_parquet(tmp_path / "in" / hidden, **_columns(60 * number))
    cuts = {"by": "time", "column": "dt", "valid_from": "2025-01-02", "test_from": "2025-01-03"}
    assert _ingest(tmp_path, split=cuts)["rows"] == dict.fromkeys(SPLITS, ROWS)


def test_a_column_of_the_evaluation_with_two_types_or_in_one_file(tmp_path):
    write_parquet(tmp_path / "in" / "a.parquet", **_columns(), land=[1] * ROWS)
    options = DataOptions(source="parquet", path=str(tmp_path / "in"), split=THIRDS)
    named = {"evaluation.segments": "land"}
    for columns, message in (
        ({"land": ["x"] * ROWS}, r"b\.parquet: column 'land': expected int64 as in .*a\.parquet"),
        ({}, r"b\.parquet: the column 'land' \(evaluation.segments\) is"),
    ):
        write_parquet(tmp_path / "in" / "b.parquet", **_columns(60), **columns)
        with pytest.raises(DataError, match=message):
            ingest(options, SCHEMA, 7, tmp_path / "out", named=named)


def test_folders_that_are_linked_are_read_once(tmp_path):
    write_parquet(tmp_path / "far" / "rows.parquet", **_columns())
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "link").symlink_to(tmp_path / "far")
    (tmp_path / "far" / "back").symlink_to(tmp_path / "in")
    assert sum(_ingest(tmp_path)["rows"].values()) == ROWS


def test_paths_by_split_keep_their_rows(tmp_path):
    for name, first in (("a", 0), ("b", ROWS), ("c", 2 * ROWS)):
        write_parquet(tmp_path / f"{name}.parquet", **_columns(first))
    a, b, c = (str(tmp_path / f"{name}.parquet") for name in "abc")
    path = {"train": [a, b], "test": c}
    run(
        tmp_path / "out",
        SCHEMA,
        source="parquet",
        path=path,
        split={"by": "provided", "valid": 0.3},
    )
    prices = {
        split: set(read_split(tmp_path / "out", split)["price"].to_pylist()) for split in SPLITS
    }
    assert prices["test"] == {k / 4 for k in range(2 * ROWS, 3 * ROWS)}
    assert prices["train"] | prices["valid"] == {k / 4 for k in range(2 * ROWS)}
