"""Splits: whole requests, strict order in time, users in one split, reproducible."""

import numpy as np
import pyarrow as pa
import pytest

from pipelines.common.errors import PipelineError
from pipelines.ingest.data_options import SplitOptions
from pipelines.ingest.source import ALL, Source, SourceFile
from pipelines.ingest.splitter import Splitter, check_splits, read_chunks

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
    with pytest.raises(
        PipelineError, match=r"needs the column of the time: set data\.split\.column"
    ):
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
    with pytest.raises(PipelineError, match='by = "provided" needs files that name their split'):
        _split(_table(), options)


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("time", pa.array(["a"] * 1009), "must be a number, a date or a timestamp"),
        ("time", pa.array([None] + [1] * 1008), "must have no nulls"),
        ("tme", None, "'tme' .* is missing. Did you mean 'time'"),
    ],
)
def test_times_that_cannot_split(column, values, message):
    table = _table() if values is None else _table().set_column(2, "time", values)
    with pytest.raises(PipelineError, match=message):
        _split(table, SplitOptions(by="time", column=column))


def test_too_few_times_are_an_error():
    with pytest.raises(PipelineError, match="too few different values"):
        check_splits({"train": 0, "valid": 0, "test": 9}, SplitOptions(by="time", column="t"))
    check_splits({"train": 1, "valid": 1, "test": 1}, SplitOptions())


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
