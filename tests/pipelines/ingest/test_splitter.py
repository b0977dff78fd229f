"""Splits: whole requests, strict order in time, users in one split, reproducible."""

import numpy as np
import pyarrow as pa
import pytest

from pipelines.ingest.source import ALL, Source, SourceFile
from pipelines.ingest.split_options import SplitOptions
from pipelines.ingest.splitter import Splitter, read_chunks
from serving.state.errors import DataError

TRAIN, VALID, TEST = range(3)


def _table(rows=1009, seed=0):
    rng = np.random.default_rng(seed)
    request = np.sort(rng.integers(211, size=rows))
    return pa.table(
        {
            "request": request,
            "user": pa.array([f"u{k}" for k in request % 37]),
            "time": rng.permutation(211)[request] // 2,
            "row": np.arange(rows),
        }
    )


def _split(table, options, seed=3, request="request", chunk=97, **source):
    """One split index per row, read in chunks of whole requests."""

    def read(columns):
        return (table.slice(start, chunk) for start in range(0, table.num_rows, chunk))

    made = Source({ALL: [SourceFile("here", read)]}, request=request, **source)
    splitter = Splitter(options, made, seed)
    parts = [splitter(part, t, where) for part, where, t in read_chunks(made)]
    return np.concatenate(parts)


OPTIONS = [
    SplitOptions(by="time", column="time", valid=0.2, test=0.3),
    SplitOptions(by="user", column="user", valid=0.2, test=0.3),
    SplitOptions(by="hash", valid=0.2, test=0.3),
    SplitOptions(by="hash", column="user", valid=0.2, test=0.3),
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: f"{o.by} {o.column}")
def test_shares_are_kept_and_requests_stay_whole(options):
    table = _table()
    split = _split(table, options)
    # Neither chunks nor another run change it; only a hash depends on the seed.
    np.testing.assert_array_equal(_split(table, options, chunk=31), split)
    assert (_split(table, options, seed=4) == split).all() == (options.by == "time")
    np.testing.assert_allclose(np.bincount(split) / len(split), [0.5, 0.2, 0.3], atol=0.13)
    for request in range(211):
        assert len(set(split[np.asarray(table["request"]) == request])) <= 1


def test_a_request_is_as_early_as_its_earliest_row():
    table = pa.table({"request": list("aabbcc"), "time": [1, 9, 5, 4, 6, 6]})
    options = SplitOptions(by="time", column="time", valid=0.3, test=0.3)
    np.testing.assert_array_equal(_split(table, options), [TRAIN] * 2 + [VALID] * 2 + [TEST] * 2)


@pytest.mark.parametrize("kind", [pa.float64(), pa.timestamp("s"), pa.date32()])
def test_times_of_any_kind_are_strictly_ordered(kind):
    table = _table()
    times = table["time"].cast(pa.int32()).cast(kind if kind == pa.date32() else pa.int64())
    other = table.set_column(2, "time", times.cast(kind))
    split = _split(table, OPTIONS[0])
    np.testing.assert_array_equal(_split(other, OPTIONS[0]), split)
    parts = [np.asarray(table["time"])[split == part] for part in (TRAIN, VALID, TEST)]
    assert parts[0].max() < parts[1].min()
    assert parts[1].max() < parts[2].min()


def test_the_sources_own_columns_are_the_defaults():
    table = _table()
    by_time = SplitOptions(by="time", valid=0.2, test=0.3)
    np.testing.assert_array_equal(_split(table, by_time, time="time"), _split(table, OPTIONS[0]))
    by_user = SplitOptions(by="user", valid=0.2, test=0.3)
    np.testing.assert_array_equal(_split(table, by_user, user="user"), _split(table, OPTIONS[1]))
    with pytest.raises(DataError, match=r"needs the column of the time: set data\.split\.column"):
        _split(table, by_time)


def _provided(parts, options):
    files = {part: [SourceFile.of_table(part, table)] for part, table in parts.items()}
    source = Source(files)
    splitter = Splitter(options, source, 3)
    return {part: splitter(part, table, where) for part, where, table in read_chunks(source)}


def test_the_providers_split():
    options = SplitOptions(by="provided", valid=0.2)
    three = _provided({name: _table() for name in ("train", "valid", "test")}, options)
    assert [set(split) for split in three.values()] == [{TRAIN}, {VALID}, {TEST}]
    two = _provided({name: _table() for name in ("train", "test")}, options)
    assert set(two["test"]) == {TEST}
    np.testing.assert_allclose(np.bincount(two["train"]) / 1009, [0.8, 0.2], atol=0.05)
    with pytest.raises(DataError, match='by = "provided" needs files that name their split'):
        _split(_table(), options)


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        (
            "time",
            pa.array(["a"] * 1009),
            r"\(data.split.column\): expected a time .* Received: 'a'",
        ),
        ("time", pa.array([None] + [1] * 1008), "must have no nulls"),
        ("tme", None, "'tme' .* is missing. Did you mean 'time'"),
    ],
)
def test_times_that_cannot_split(column, values, message):
    table = _table() if values is None else _table().set_column(2, "time", values)
    with pytest.raises(DataError, match=message):
        _split(table, SplitOptions(by="time", column=column))


@pytest.mark.parametrize(
    ("kind", "cuts"),
    [
        (pa.int64(), (40, 70)),
        (pa.float32(), (39.5, 70)),
        (pa.date32(), ("1970-02-10", "1970-03-12")),
        (pa.timestamp("ms", "Europe/Berlin"), ("1970-01-01T00:00:40", "1970-01-01T01:01:10+01:00")),
        (pa.timestamp("ns"), ("1970-01-01 00:00:40", "1970-01-01 00:01:10")),
        (pa.string(), ("1970-01-01T00:00:40", "1970-01-01 00:01:10Z")),
    ],
    ids=str,
)
def test_cuts_divide_times_of_any_type(kind, cuts):
    table = _table()
    times = np.asarray(table["time"])
    column = pa.array(times).cast(pa.int32() if kind == pa.date32() else pa.int64())
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("s")).cast(pa.timestamp(kind.unit)).cast(pa.int64())
    if kind == pa.string():
        column = pa.array([f"1970-01-01 00:{t // 60:02}:{t % 60:02}" for t in times.tolist()])
    options = SplitOptions(by="time", column="time", valid_from=cuts[0], test_from=cuts[1])
    split = _split(table.set_column(2, "time", column.cast(kind)), options)
    # All rows of a request have one time here.
    np.testing.assert_array_equal(split, (times >= 40) * 1 + (times >= 70))


@pytest.mark.parametrize(
    ("kind", "cuts", "message"),
    [
        (pa.int64(), ("2025-11-01", "2025-12-01"), r"valid_from`: expected a number, as 'time'"),
        (pa.date32(), (40, 70), r"valid_from`: expected a date or a time, such as 2025-11-01"),
        (pa.date32(), ("1970-02-10", "soon"), r"test_from`: expected a date .* 'soon'"),
        (pa.int64(), (70, 40), "must be before `data.split.test_from`. Received: 70 and 40"),
    ],
    ids=str,
)
def test_cuts_of_another_type_or_order_are_errors(kind, cuts, message):
    table = _table()
    times = table["time"].cast(pa.int32()).cast(kind)
    options = SplitOptions(by="time", column="time", valid_from=cuts[0], test_from=cuts[1])
    with pytest.raises(DataError, match=message):
        _split(table.set_column(2, "time", times), options)


def _by_column(values, request=None):
    table = pa.table({"fold": values, "request": request or list(range(len(values)))})
    return _split(table, SplitOptions(by="column", column="fold"))


def test_a_column_names_the_splits():
    split = _by_column(["test", "train", "train", "valid"], [1, 2, 2, 3])
    np.testing.assert_array_equal(split, [TEST, TRAIN, TRAIN, VALID])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["train", "dev"], "'fold' .*expected 'train', 'valid' or 'test' .* Received: 'dev'"),
        (["train", None], "Received: None"),
        ([0, 1], "Received: 0"),
        ([["train"], ["test"]], r"Received: \['train'\]"),
        (["train", "test"], "request 7 name two splits|the request 7"),
    ],
)
def test_columns_that_do_not_name_splits(values, message):
    with pytest.raises(DataError, match=message):
        _by_column(values, [7, 7] if values == ["train", "test"] else None)


def test_files_that_name_splits_are_not_mixed_silently():
    parts = {"train": _table(), "test": _table()}
    with pytest.raises(DataError, match=r"name their splits \(train, test\).* is not set"):
        _provided(parts, SplitOptions())
    assert set(_provided(parts, SplitOptions(by="hash"))["test"]) == {TRAIN, VALID, TEST}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (SplitOptions(by="time", column="time"), "too few different values"),
        (
            SplitOptions(by="time", column="time", valid_from=200, test_from=300),
            "with valid_from = 200 and test_from = 300 .*'time' go from 0 to 105: move the cuts",
        ),
        (SplitOptions(by="hash", valid=0), "raise data.split.valid"),
    ],
)
def test_an_empty_split_is_an_error(options, message):
    table = _table()
    splitter = Splitter(options, Source({ALL: [SourceFile.of_table("here", table)]}), 3)
    splitter(ALL, table, "here")
    splitter.check({"train": 1, "valid": 1, "test": 1})
    with pytest.raises(DataError, match=f"'valid' is empty: 9 rows .*{message}"):
        splitter.check({"train": 9, "valid": 0, "test": 0})


def test_a_user_is_in_one_split_without_requests_too():
    table = _table()
    split = _split(table, OPTIONS[1], request=None)
    users = np.asarray(table["user"])
    for user in set(users):
        assert len(set(split[users == user])) == 1
    np.testing.assert_array_equal(split, _split(table, OPTIONS[1]))
    # By hash, each row is then on its own.
    split = _split(table, OPTIONS[2], request=None)
    requests = np.asarray(table["request"])
    assert any(len(set(split[requests == request])) > 1 for request in range(211))
