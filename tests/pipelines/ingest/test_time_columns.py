"""Histories, ages, aggregates, splits and events take the same times and refuse the same."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

from pipelines.common.progress import Progress
from pipelines.ingest.events.event_options import EventOptions
from pipelines.ingest.events.ingest_events import ingest_events
from serving.state.errors import DataError
from tests.pipelines.ingest.files import read_all, read_split, run, write_parquet

ROWS = 61
FIRST = 1_700_000_000
SECONDS = FIRST + np.random.default_rng(0).permutation(ROWS) * 7
SEEN = {"name": "seen", "of": "item", "by": "user", "time": "at"}
AGES = {"name": "ages", "of": "at", "by": "user", "time": "at", "ages": True}
COUNT = {"name": "count", "kind": "count", "by": "user", "time": "at"}
USES = {
    "history": {"histories": [SEEN]},
    "ages": {"histories": [AGES]},
    "aggregate": {"aggregates": [COUNT]},
    "shares": {"split": {"by": "time", "column": "at", "valid": 0.3, "test": 0.3}},
    "cuts": {"split": {"by": "time", "column": "at", "valid_from": 3, "test_from": 5}},
}
_INT = pa.array(SECONDS)
FORMS = {
    "seconds": _INT,
    "floats": _INT.cast(pa.float64()),
    **{u: _INT.cast(pa.timestamp("s")).cast(pa.timestamp(u)) for u in ("s", "ms", "us")},
    "ns": _INT.cast(pa.timestamp("s")).cast(pa.timestamp("ns", "Asia/Tokyo")),
    "text": pa.array([str(np.datetime64(s, "s")) for s in SECONDS.tolist()]),
    "zoned text": pa.array(
        [
            dt.datetime.fromtimestamp(s, dt.timezone(dt.timedelta(hours=s % 5))).isoformat(" ")
            for s in SECONDS.tolist()
        ]
    ),
}


def _columns(at):
    rows = np.arange(ROWS)
    return {"row": rows, "user": rows % 3, "item": rows % 11, "at": at}


def _cuts(of):
    """The times of two thirds and of five sixths, as an experiment file writes them."""
    first, second = (FIRST + 7 * ROWS * n // 6 for n in (4, 5))
    return [
        s if of in ("seconds", "floats") else str(np.datetime64(s, "s")) for s in (first, second)
    ]


def _made(tmp_path, at, name="seconds"):
    for number, times in enumerate(at):
        write_parquet(tmp_path / "in" / f"{number}.parquet", **_columns(times))
    cuts = dict(zip(("valid_from", "test_from"), _cuts(name), strict=True))
    summary = run(
        tmp_path / "out",
        source="parquet",
        path=str(tmp_path / "in"),
        split={"by": "time", "column": "at", **cuts},
        histories=[SEEN, AGES],
        aggregates=[COUNT, {**COUNT, "name": "since", "kind": "since_last"}],
    )
    names = ["row", "seen", "ages", "count", "since"]
    return summary, read_all(tmp_path / "out").select(names).to_pylist()


@pytest.mark.parametrize("name", list(FORMS)[1:])
def test_every_form_of_one_time_gives_the_same_rows(name, tmp_path):
    expected = _made(tmp_path / "a", [FORMS["seconds"]])
    found = _made(tmp_path / "b", [FORMS[name]], name)
    assert found[1] == expected[1]
    assert found[0]["rows"] == expected[0]["rows"]


def test_units_and_zones_of_files_are_one_time(tmp_path):
    files = [FORMS["s"], FORMS["ns"], FORMS["us"]]
    expected = _made(tmp_path / "a", [FORMS["us"]] * 3, "us")
    found = _made(tmp_path / "b", files, "us")
    assert found[1] == expected[1]


def test_coded_texts_beside_texts_are_one_time(tmp_path):
    files = [
        FORMS["text"].dictionary_encode(),
        FORMS["text"],
        FORMS["text"].cast(pa.large_string()),
    ]
    expected = _made(tmp_path / "a", [FORMS["text"]] * 3, "text")
    assert _made(tmp_path / "b", files, "text") == expected


def test_nanoseconds_order_every_use(tmp_path):
    near = pa.array(FIRST * 10**9 + SECONDS - FIRST).cast(pa.timestamp("ns", "UTC"))
    found = []
    for name, at in (("seconds", FORMS["seconds"]), ("near", near)):
        path = write_parquet(tmp_path / name / "rows.parquet", **_columns(at))
        split = {"by": "time", "column": "at", "valid": 0.3, "test": 0.3}
        made = {"histories": [SEEN], "aggregates": [COUNT]}
        run(tmp_path / name / "out", source="parquet", path=str(path), split=split, **made)
        found.append(read_all(tmp_path / name / "out").drop_columns("at").to_pylist())
    assert found[0] == found[1]


BAD = {
    "numbers as text": [str(s) for s in SECONDS],
    "dates of the US": [f"{1 + n % 12:02}/01/2025" for n in range(ROWS)],
    "nan": [np.nan, *map(float, SECONDS[1:])],
    "infinity": [np.inf, *map(float, SECONDS[1:])],
    "null": [None, *SECONDS[1:].tolist()],
    "flags": [True] * ROWS,
}


@pytest.mark.parametrize("values", BAD)
@pytest.mark.parametrize("use", [*USES, "events"])
def test_no_use_takes_what_is_no_time(use, values, tmp_path):
    path = write_parquet(tmp_path / "bad.parquet", **_columns(pa.array(BAD[values])))
    with pytest.raises(DataError, match=r"bad\.parquet: column 'at' \(data\..*expected .*time"):
        _use(use, path, tmp_path / "out")


def _use(use, path, out):
    if use != "events":
        return run(out, source="parquet", path=str(path), **USES[use])
    options = EventOptions(path=str(path), user="user", item="item", time="at")
    return ingest_events(options, out, Progress(Console(quiet=True)))


def test_events_of_files_with_other_units_are_in_one_order(tmp_path):
    for number, name in enumerate(("ns", "s")):
        rows = slice(number, None, 2)
        columns = {k: v[rows] for k, v in _columns(FORMS[name]).items()}
        write_parquet(tmp_path / "in" / f"{number}.parquet", **columns)
    options = EventOptions(path=str(tmp_path / "in"), user="user", item="item", time="at")
    ingest_events(options, tmp_path / "out", Progress(Console(quiet=True)))
    order = np.argsort(SECONDS)
    for row in read_split(tmp_path / "out", "test").to_pylist():
        mine = order[order % 3 == row["user"]]
        assert row["item"] == (mine % 11).tolist()
        assert row["age"] == (SECONDS[mine[-1]] - SECONDS[mine]).tolist()


def test_numbers_and_dates_in_two_files_name_both(tmp_path):
    write_parquet(tmp_path / "in" / "a.parquet", **_columns(FORMS["seconds"]))
    write_parquet(tmp_path / "in" / "b.parquet", **_columns(FORMS["s"]))
    message = r"b\.parquet: column 'at': expected int64 as in .*a\.parquet, received timestamp"
    with pytest.raises(DataError, match=message):
        run(tmp_path / "out", source="parquet", path=str(tmp_path / "in"), histories=[SEEN])
