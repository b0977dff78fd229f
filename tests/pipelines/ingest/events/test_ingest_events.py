"""Sequences equal a slow loop, whatever the buckets and the files are."""

import io
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from rich.console import Console

from pipelines.common.errors import PipelineError
from pipelines.common.progress import Progress
from pipelines.ingest import table_files
from pipelines.ingest.events import buckets, event_log
from pipelines.ingest.events.buckets import user_hashes
from pipelines.ingest.events.event_options import EventOptions
from pipelines.ingest.events.ingest_events import ingest_events
from serving.state.columns.times import shown_time
from tests.pipelines.ingest.events.logs import (
    NAMES,
    random_log,
    read,
    read_counts,
    run,
    sequences,
    write,
)

BY_TIME = {"by": "time", "valid_from": 61, "test_from": 83}
DATA = os.environ.get("RECSYS_DATA")
CASES = [
    {},
    {"columns": ("row", "action")},
    {"columns": ("row",), "session": "visit"},
    {"columns": ("row",), "session_gap": 7.0},
    {"columns": ("row",), "min_item_events": 19, "min_user_events": 5},
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("split", [{"by": "last"}, BY_TIME], ids=["last", "time"])
@pytest.mark.parametrize("options", CASES, ids=["plain", "columns", "visits", "gap", "few"])
def test_equal_to_the_definition(options, split, seed, tmp_path):
    table = random_log(seed=seed)
    summary = run(write(tmp_path / "in.parquet", table), tmp_path / "out", split=split, **options)
    expected = sequences(table, split=split, **options)
    found = read(tmp_path / "out")
    for name, rows in found.items():
        assert {row["who"]: row for row in rows.to_pylist()} == expected[name]
        assert summary["rows"][name] == rows.num_rows == len(expected[name])
        assert list(summary["columns"]) == rows.column_names
    trained = Counter(item for row in expected["train"].values() for item in row["film"])
    ordered = sorted(trained.items(), key=lambda pair: (-pair[1], pair[0]))
    assert read_counts(tmp_path / "out") == [{"film": i, "count": n} for i, n in ordered]


EARLY = {"by": "time", "valid_from": 11, "test_from": 93}


@pytest.mark.parametrize("split", [{"by": "last"}, EARLY], ids=["last", "time"])
def test_what_is_kept_and_what_is_left_out_add_up(split, tmp_path):
    table = random_log()
    options = {"split": split, "min_item_events": 19, "min_user_events": 5}
    summary = run(write(tmp_path / "in.parquet", table), tmp_path / "out", **options)
    left_out = summary["left_out"]
    assert all(left_out[name] for name in left_out if "without_row" not in name)
    assert (left_out["users_without_row"] > 0) == (split["by"] == "time")
    events = sum(count for name, count in left_out.items() if name.startswith("events"))
    assert summary["events"] + events == table.num_rows
    known = table.filter(pc.and_(table["who"].is_valid(), table["film"].is_valid()))
    users = sum(count for name, count in left_out.items() if name.startswith("users"))
    frequent = [item for item, n in Counter(known["film"].to_pylist()).items() if n >= 19]
    kept = known.filter(pc.is_in(known["film"], pa.array(frequent)))
    assert summary["users"] + users == len(pc.unique(kept["who"]))
    assert summary["items"] == len(frequent)
    assert summary["items"] + left_out["rare_items"] == len(pc.unique(known["film"]))
    assert summary["times"] == [pc.min(known["at"]).as_py(), pc.max(known["at"]).as_py()]


def test_the_result_depends_neither_on_the_buckets_nor_on_the_files(tmp_path, monkeypatch):
    table = random_log()
    options = {"columns": ("row",), "session": "visit", "min_item_events": 7}
    path = write(tmp_path / "in.parquet", table)
    expected = run(path, tmp_path / "one", **options)
    assert not list((tmp_path / "one").glob(".*"))  # the buckets are gone
    monkeypatch.setattr(buckets, "BUCKET", 11)
    monkeypatch.setattr(event_log, "BLOCK", 13)
    monkeypatch.setattr(table_files, "CHUNK_ROWS", 5)
    for number, (first, length) in enumerate([(0, 101), (101, 1), (102, 397)]):
        part = table.slice(first, length)
        write(tmp_path / "many" / f"{number}.parquet", part, row_group_size=17)
    for name, where in (("buckets", path), ("files", tmp_path / "many")):
        assert run(where, tmp_path / name, **options) == expected
        for split, rows in read(tmp_path / "one").items():
            assert read(tmp_path / name)[split].equals(rows)
        assert read_counts(tmp_path / name) == read_counts(tmp_path / "one")


def test_users_are_in_the_order_of_their_hash(tmp_path, monkeypatch):
    monkeypatch.setattr(buckets, "BUCKET", 11)
    run(write(tmp_path / "in.parquet", random_log()), tmp_path / "out")
    for rows in read(tmp_path / "out").values():
        assert (np.diff(user_hashes(rows["who"]).astype(np.float64)) > 0).all()


def test_events_of_one_time_keep_the_order_of_the_files(tmp_path):
    rows = 997
    table = random_log(rows, times=1).append_column("number", pa.array(np.arange(rows)))
    run(write(tmp_path / "in.parquet", table), tmp_path / "out", columns=("number",))
    for row in read(tmp_path / "out")["test"]["number"].to_pylist():
        assert row == sorted(row)


@pytest.mark.parametrize(
    ("kind", "per_second", "cuts"),
    [
        (pa.int32(), 1, (7200, 10800)),
        (pa.float64(), 1, (7199.5, 10800)),
        (pa.timestamp("s"), 1, ("1970-01-01T02:00:00", "1970-01-01T03:00:00")),
        (pa.timestamp("s"), 1, ("1970-01-01T01:59:59.5", "1970-01-01T03:00:00")),
        (
            pa.timestamp("ms", "Europe/Paris"),
            10**3,
            ("1970-01-01T03:00:00+01:00", "1970-01-01T03:00"),
        ),
        (pa.timestamp("ns"), 10**9, ("1970-01-01T02:00:00", "1970-01-01T03:00:00")),
    ],
    ids=str,
)
def test_ages_are_seconds_and_cuts_divide_times_of_every_type(kind, per_second, cuts, tmp_path):
    seconds = np.array([0, 3600, 7200, 10800])
    table = pa.table(
        {
            "who": [5, 5, 5, 5],
            "film": ["a", "b", "c", "d"],
            "at": pa.array(seconds * per_second).cast(kind),
        }
    )
    split = {"by": "time", "valid_from": cuts[0], "test_from": cuts[1]}
    summary = run(write(tmp_path / "in.parquet", table), tmp_path / "out", split=split)
    found = {split: rows.to_pylist() for split, rows in read(tmp_path / "out").items()}
    assert found == {
        "train": [{"who": 5, "film": ["a", "b"], "age": [3600, 0]}],
        "valid": [{"who": 5, "film": ["a", "b", "c"], "age": [7200, 3600, 0]}],
        "test": [{"who": 5, "film": ["a", "b", "c", "d"], "age": [10800, 7200, 3600, 0]}],
    }
    assert summary["times"] == [shown_time(time, kind) for time in (0, 10800 * per_second)]


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.timestamp("us")], ids=str)
def test_the_range_of_the_times_is_printed_as_dates(kind, tmp_path):
    ticks = 10**6 if kind == pa.timestamp("us") else 1
    times = np.array([956_703_932, 956_703_933, 956_703_934, 1_046_454_590])
    at = pa.array(times * ticks).cast(kind)
    console = Console(file=io.StringIO())
    path = write(tmp_path / "in.parquet", pa.table({"who": [5] * 4, "film": [7] * 4, "at": at}))
    ingest_events(EventOptions(path=str(path), **NAMES), tmp_path / "out", Progress(console))
    assert "times: 2000-04-25 23:05:32 to 2003-02-28 17:49:50 UTC" in console.file.getvalue()


def test_dates_are_days(tmp_path):
    days = pa.array([0, 1, 2, 3], pa.int32()).cast(pa.date32())
    table = pa.table({"who": [5] * 4, "film": [7, 7, 11, 13], "at": days})
    split = {"by": "time", "valid_from": "1970-01-03", "test_from": "1970-01-04"}
    run(write(tmp_path / "in.parquet", table), tmp_path / "out", split=split)
    assert read(tmp_path / "out")["valid"]["age"].to_pylist() == [[172800, 86400, 0]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_user_events": 1009}, "'train' has no rows, of 0 events .* users_with_few_events"),
        (
            {"min_item_events": 1009},
            "'train' has no rows, .*, rare_items 23, .*data.min_item_events",
        ),
        (
            {"split": {"by": "time", "valid_from": 0, "test_from": 83}},
            "'train' has no rows.*'at' go from 0 to 96.*valid_from = 0 .*: move the cuts",
        ),
        (
            {"split": {"by": "time", "valid_from": 61, "test_from": 97}},
            "'test' has no rows.*'at' go from 0 to 96.*test_from = 97: move the cuts",
        ),
        (
            {"split": {"by": "time", "valid_from": 83, "test_from": 61}},
            "valid_from` must be before `data.split.test_from`. Received: 83 and 61",
        ),
        (
            {"split": {"by": "time", "valid_from": "2025-11-01", "test_from": "2025-12-01"}},
            "valid_from`: expected a number, as 'at' of .* Received: '2025-11-01'",
        ),
    ],
)
def test_splits_without_rows_and_wrong_cuts_are_errors(options, message, tmp_path):
    path = write(tmp_path / "in.parquet", random_log())
    with pytest.raises(PipelineError, match=message):
        run(path, tmp_path / "out", **options)


def test_users_of_two_events_only_train(tmp_path):
    table = pa.table({"who": [2, 2, 3], "film": [5, 7, 11], "at": [13, 17, 19]})
    path = write(tmp_path / "in.parquet", table)
    with pytest.raises(PipelineError, match=r"'valid' has no rows.*need users with 3 events"):
        run(path, tmp_path / "out")


@pytest.mark.parametrize(("rows", "received"), [(2, "2 without, and no others"), (0, "no rows")])
def test_a_log_without_events_of_users_is_an_error(rows, received, tmp_path):
    table = pa.table({"who": pa.array([None, None], pa.int64()), "film": [5, 7], "at": [1, 2]})
    path = write(tmp_path / "in.parquet", table[:rows])
    message = rf"in.parquet: expected events with a user and an item. Received: {received}\."
    with pytest.raises(PipelineError, match=message):
        run(path, tmp_path / "out")


@pytest.mark.skipif(not DATA, reason="RECSYS_DATA is not set: no real data to read")
def test_movielens_has_the_users_items_and_events_of_the_papers(tmp_path):
    names = {"user": "user_id", "item": "item_id", "time": "timestamp", "columns": ("rating",)}
    path = Path(str(DATA)) / "movielens-1m"
    summary = run(path, tmp_path / "out", source="movielens-1m", min_item_events=5, **names)
    assert summary["rows"] == dict.fromkeys(("train", "valid", "test"), 6040)
    assert [summary[name] for name in ("users", "items", "events")] == [6040, 3416, 999_611]
    assert sum(row["count"] for row in read_counts(tmp_path / "out")) == 999_611 - 2 * 6040
