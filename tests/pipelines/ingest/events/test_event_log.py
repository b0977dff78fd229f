"""Event logs are checked as they are read."""

import numpy as np
import pyarrow as pa
import pytest

from pipelines.ingest import table_files
from pipelines.ingest.events import event_log
from pipelines.ingest.events.event_log import EventLog
from pipelines.ingest.events.event_options import EventOptions
from serving.state.errors import DataError
from tests.pipelines.ingest.events.logs import NAMES, random_log, write


def _log(path, **options):
    return EventLog(EventOptions(path=str(path), **{**NAMES, **options}))


def test_blocks_are_the_events_with_a_user_and_an_item_in_order(tmp_path, monkeypatch):
    monkeypatch.setattr(event_log, "BLOCK", 31)
    monkeypatch.setattr(table_files, "CHUNK_ROWS", 29)
    table = random_log()
    path = write(tmp_path / "in.parquet", table)
    events = _log(path, columns=("row",))
    for _ in range(2):  # it can be read again
        blocks = list(events.blocks())
        assert len(blocks) == 9
        known = [e["row"] for e in table.to_pylist() if None not in (e["who"], e["film"])]
        assert [n for block in blocks for n in block.events["row"].to_pylist()] == known
        assert sum(block.missing for block in blocks) == table.num_rows - len(known)
        assert set(blocks[0].events.column_names) == {"who", "film", "at", "row"}


def test_an_empty_string_is_a_missing_user_or_item(tmp_path):
    table = pa.table(
        {"who": ["a", "", "b", None, "c"], "film": ["x", "y", "", "z", "x"], "at": range(5)}
    )
    (block,) = _log(write(tmp_path / "in.parquet", table)).blocks()
    assert block.missing == 3
    assert block.events.to_pydict() == {"who": ["a", "c"], "film": ["x", "x"], "at": [0, 4]}


def test_integers_and_strings_of_any_width_are_one_type(tmp_path):
    for number, (ids, texts) in enumerate(
        [(pa.int32(), pa.string()), (pa.uint8(), pa.large_string())]
    ):
        part = pa.table({"who": pa.array(["a"], texts), "film": pa.array([5], ids), "at": [2.0]})
        write(tmp_path / f"{number}.parquet", part)
    (block,) = _log(tmp_path).blocks()
    assert block.events.to_pydict() == {"who": ["a", "a"], "film": [5, 5], "at": [2, 2]}
    assert block.events.schema.types == [pa.string(), pa.int64(), pa.float64()]


@pytest.mark.parametrize(
    ("kind", "second"),
    [(pa.int64(), 1), (pa.date32(), 1), (pa.timestamp("us"), 10**6)],
    ids=str,
)
def test_second_is_that_of_the_type(kind, second, tmp_path):
    ticks = pa.array([0], pa.int32() if kind == pa.date32() else pa.int64()).cast(kind)
    events = _log(write(tmp_path / "in.parquet", pa.table({"who": [2], "film": [3], "at": ticks})))
    list(events.blocks())
    assert events.second == second


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"at": ["monday", "tuesday"]},
            r"'at' \(data.time\): expected a time .* Received: 'monday'",
        ),
        ({"at": [True, False]}, r"'at' \(data.time\): .* Received: the type bool. Convert"),
        ({"at": [1, None]}, r"'at' \(data.time\): .* A time must have no nulls"),
        ({"at": [1.0, np.nan]}, "Received: nan. A time must have no NaN"),
        (
            {"at": [11, 1_046_454_590_000]},
            r"seconds since 1970.* Received: 1,046,454,590,000. Divide milliseconds by 1,000",
        ),
        ({"at": [-1e11, 13.5]}, r"seconds since 1970.* Received: -100,000,000,000.0. Divide"),
        (
            {"at": pa.array([3, 1_704_067_200_000_000], pa.timestamp("ms"))},
            r"years 1 to 5138. Received: timestamp\[ms\] with the number 1,704,067,200,000,000",
        ),
        ({"who": [[2], [3]]}, r"'who' \(data.user\): expected one value per row, received list"),
        ({"film": [[2], [3]]}, r"'film' \(data.item\): .* Give each event a row of its own"),
        ({"film": [2.5, None]}, r"'film' \(data.item\): expected ids.* Received: double. Convert"),
        ({"visit": [0.5, 0.7]}, r"'visit' \(data.session\): expected ids"),
        ({"action": [0.5, 0.7]}, r"'action' \(data.columns\): expected ids.* into ranges"),
        ({"action": [[2], [3]]}, r"'action' \(data.columns\): expected one value per row"),
        ({"film": pa.array([1, 2**64 - 1], pa.uint64())}, "'film': expected values of type int64"),
    ],
)
def test_wrong_columns_are_errors(change, message, tmp_path):
    columns = {"who": [2, 3], "film": [5, 7], "at": [11, 13], "visit": [1, 2], "action": ["a", "b"]}
    path = write(tmp_path / "in.parquet", pa.table(columns | change))
    with pytest.raises(DataError, match=message):
        list(_log(path, session="visit", columns=("action",)).blocks())


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (pa.array([2**60 + 1]), pa.array([3.0, None]), [2**60 + 1, 3]),
        (pa.nulls(1), pa.array(["a", ""]), ["a"]),
        (pa.array([b"a"]), pa.array(["b"]).dictionary_encode(), ["a", "b"]),
    ],
    ids=["floats", "null", "bytes"],
)
def test_ids_of_two_types(first, second, expected, tmp_path):
    for number, film in enumerate((first, second)):
        rows = {"who": [2] * len(film), "film": film, "at": [*range(len(film))]}
        write(tmp_path / "in" / f"{number}.parquet", pa.table(rows))
    (block,) = _log(tmp_path / "in").blocks()
    assert block.events["film"].to_pylist() == expected


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64()], ids=str)
def test_the_first_and_the_last_second_are_read(kind, tmp_path):
    times = pa.array(event_log.SECONDS, pa.int64()).cast(kind)
    table = pa.table({"who": [2, 2], "film": [3, 3], "at": times})
    (block,) = _log(write(tmp_path / "in.parquet", table)).blocks()
    assert block.events["at"].to_pylist() == [*event_log.SECONDS]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"user": "whom"}, r"'whom' \(data.user\) is missing. Did you mean 'who'"),
        ({"item": "films"}, r"'films' \(data.item\) is missing. Did you mean 'film'"),
        ({"time": "time"}, r"'time' \(data.time\) is missing"),
        ({"session": "visits"}, r"'visits' \(data.session\) is missing. Did you mean 'visit'"),
        ({"columns": ("acton",)}, r"'acton' \(data.columns\) is missing. Did you mean 'action'"),
    ],
)
def test_missing_columns_are_errors(options, message, tmp_path):
    path = write(tmp_path / "in.parquet", random_log())
    with pytest.raises(DataError, match=message):
        list(_log(path, **options).blocks())


def test_files_of_different_types_are_an_error(tmp_path):
    write(tmp_path / "0.parquet", random_log(7))
    second = random_log(7)
    write(tmp_path / "1.parquet", second.set_column(1, "film", pa.array(["a"] * 7)))
    with pytest.raises(
        DataError, match=r"1.parquet: .*'film': expected int64, .* string. .*0.parq"
    ):
        list(_log(tmp_path).blocks())


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(DataError, match="no file or folder is at"):
        _log(tmp_path / "absent.parquet")
