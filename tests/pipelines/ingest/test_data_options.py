"""The `[data]` table: invalid combinations and missing paths."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from pipelines.ingest.data_options import DataOptions
from pipelines.ingest.split_options import SplitOptions

TWO_TYPES = {"by": "time", "valid_from": 4, "test_from": "5"}


HISTORY = {"name": "h", "of": "i", "by": "u", "time": "t"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"source": "simulate", "simulate": {"candidates": 50, "items": 97}}, "half of `items`"),
        ({"source": "simulate", "simulate": {"drift": 0.1}}, "`drift` needs `days`"),
        ({"source": "criteo", "simulate": {}}, "`simulate` belongs to the source 'simulate'"),
        ({"source": "csv"}, "`path` must name the csv file or folder"),
        ({"source": "frappe", "path": ["a", "b"]}, "`path` must be one file or folder"),
        ({"source": "frappe", "path": {"train": "a"}}, "`path` must be one file or folder"),
        (
            {"source": "csv", "path": {"train": "a"}, "split": {"by": "hash"}},
            'names files by split, which belongs to split = { by = "provided" }',
        ),
        (
            {"source": "csv", "path": {"train": ["a", "b"], "test": "b"}},
            "each split must have files of its own. Received twice: b",
        ),
        ({"source": "csv", "path": "a", "split": {"by": "column"}}, "`column` must name"),
        (
            {"source": "csv", "path": "a", "split": {"by": "time", "test_from": 5}},
            "need each other. Received: valid_from=None, test_from=5",
        ),
        (
            {"source": "csv", "path": "a", "split": {"valid_from": 4, "test_from": 5}},
            'belong to by = "time"',
        ),
        (
            {
                "source": "csv",
                "path": "a",
                "split": {"by": "time", "valid_from": 4, "test_from": 5, "valid": 0.2},
            },
            "`valid` and `test` are shares",
        ),
        (
            {
                "source": "csv",
                "path": "a",
                "split": {"by": "time", "valid_from": 4, "test_from": "5"},
            },
            "must be of one type",
        ),
        (
            {
                "source": "movielens-1m",
                "aggregates": [
                    {"name": time, "kind": "count", "by": "u", "time": time} for time in "ab"
                ],
            },
            r"`aggregates` must all have the same `time`. Received: \['a', 'b'\]",
        ),
        (
            {
                "source": "movielens-1m",
                "histories": [HISTORY] * 2,
            },
            "`histories` and `aggregates` must have different names",
        ),
        ({"late": "1d"}, "`late` belongs to `histories` and `aggregates`. Received: neither"),
        ({"time_unit": "s"}, "`time_unit` belongs to `histories` and `aggregates`"),
        ({"late": "soon"}, "`late` must be a whole number with its unit"),
        ({"histories": [HISTORY], "event_id": "id"}, "`event_id` needs `late`, the time for which"),
    ],
)
def test_invalid_option_combinations_are_refused(options, message):
    with pytest.raises(ValidationError, match=message):
        DataOptions(**{"source": "movielens-1m", **options})


def test_variables_in_paths_are_filled_in(tmp_path, monkeypatch):
    monkeypatch.setenv("RECSYS_TEST_DATA", str(tmp_path))
    (tmp_path / "criteo").mkdir()
    options = DataOptions(source="criteo", path="${RECSYS_TEST_DATA}/criteo")
    assert options.paths() == [tmp_path / "criteo"]


@pytest.mark.parametrize("source", ["parquet", "csv", "frappe"])
def test_stamps_are_those_of_the_files_of_data(tmp_path, source):
    ends = {"parquet": ".parquet", "csv": ".csv.gz", "frappe": ".libfm"}[source]
    options = DataOptions(source=source, path=str(tmp_path))
    (tmp_path / f"rows{ends}").write_bytes(b"")
    before = options.stamps()
    assert list(before) == [str(tmp_path / f"rows{ends}")]
    others = [".DS_Store", "_SUCCESS", f".rows{ends}.crc", *(["README"] * (source != "frappe"))]
    for name in others:
        (tmp_path / name).write_bytes(b"")
    assert options.stamps() == before
    (tmp_path / f"more{ends}").write_bytes(b"")
    assert len(options.stamps()) == 2


def test_stamps_hold_the_user_table(tmp_path):
    users = {"key": "user", "path": str(tmp_path / "users.parquet")}
    (tmp_path / "users.parquet").write_bytes(b"")
    (tmp_path / "rows.csv").write_bytes(b"")
    options = DataOptions(source="csv", path=str(tmp_path / "rows.csv"), users=users)
    assert {"rows.csv", "users.parquet"} == {Path(name).name for name in options.stamps()}


def test_split_by_time_may_have_a_unit_alone():
    options = DataOptions(
        source="movielens-1m", time_unit="s", split=SplitOptions(by="time", column="at")
    )
    assert options.time_unit == "s"
