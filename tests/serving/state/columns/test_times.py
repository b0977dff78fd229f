"""Times of every kind become exact ticks; other values are refused by name."""

import datetime as dt
import functools
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from pipelines.storage.exact_casts import cast_exactly
from serving.state.columns.times import (
    common_time_type,
    exact_time,
    read_exact_time,
    shown_time,
    to_tick,
    to_ticks,
)
from serving.state.errors import DataError

BERLIN = "Europe/Berlin"


def _ticks(column):
    return to_ticks(column, "at", "data.time", "a.parquet")


@pytest.mark.parametrize(
    "kind",
    [
        *(pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, BERLIN)),
        *(pa.date32(), pa.date64(), pa.int8(), pa.uint64(), pa.float16(), pa.float64()),
    ],
    ids=str,
)
def test_the_numbers_of_a_column_keep_their_order(kind):
    days = pa.array([3, 1, 2], pa.int32())
    number = days.cast(pa.int64()) if kind != pa.date32() else days
    column = pa.array([n * 86_400_000 for n in (3, 1, 2)]) if kind == pa.date64() else number
    column = column.cast(kind)
    found = _ticks(column)
    np.testing.assert_array_equal(np.argsort(found), [1, 2, 0])
    np.testing.assert_array_equal(_ticks(pa.chunked_array([column.dictionary_encode()])), found)
    np.testing.assert_array_equal(_ticks(column[:0]), found[:0])


def test_nanoseconds_stay_apart():
    first = 1_700_000_000_000_000_001
    found = _ticks(pa.array([first + 1, first], pa.timestamp("ns", BERLIN)))
    np.testing.assert_array_equal(found, [first + 1, first])


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_text_is_iso_8601_with_or_without_a_zone(kind):
    texts = {
        "2025-11-01": dt.datetime(2025, 11, 1),
        "2025-11-01 12:30": dt.datetime(2025, 11, 1, 12, 30),
        "2025-11-01T12:30:05.25": dt.datetime(2025, 11, 1, 12, 30, 5, 250_000),
        "2025-11-01T12:30:05Z": dt.datetime(2025, 11, 1, 12, 30, 5),
        "2025-11-01 12:30:05+01:30": dt.datetime(2025, 11, 1, 11, 0, 5),
        "2025-11-01 12:30:05.000001-0200": dt.datetime(2025, 11, 1, 14, 30, 5, 1),
        "1969-12-31T23:59:59+00": dt.datetime(1969, 12, 31, 23, 59, 59),
    }
    expected = [
        (t - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1) for t in texts.values()
    ]
    np.testing.assert_array_equal(_ticks(pa.array(texts, kind)), np.array(expected) * 1000)
    assert [to_tick(text, kind) for text in texts] == [1000 * micros for micros in expected]
    assert _ticks(pa.array(["2025-11-01 00:00:00.123456789"], kind))[0] % 10**9 == 123_456_789


@pytest.mark.parametrize(
    ("values", "kind", "message"),
    [
        (["2025-11-01", "1762000000"], None, "Received: '1762000000'. Store a number as a number"),
        (["11/01/2025"], None, "Received: '11/01/2025'. Convert it"),
        (["20251101"], None, "Received: '20251101'. Store a number as a number"),
        (["2025-11-01", ""], None, "Received: ''. Convert it"),
        (["2025-11-01\n"], None, "Convert it"),
        (["2025-11-01 10:00:00 UTC"], None, "Convert it"),
        (["2025-11-01", "2025-02-30"], None, "Received: '2025-02-30'. No such time is from 1677"),
        (["2025-11-01", "9999-12-31"], None, "Received: '9999-12-31'. No such time is from 1677"),
        (["2025-11-01", None], None, "Received: 1 nulls. A time must have no nulls"),
        ([None, None], pa.null(), "Received: 2 nulls"),
        ([1, None], pa.int64(), "Received: 1 nulls"),
        ([1.0, np.nan], pa.float64(), "Received: nan. A time must have no NaN"),
        ([1.0, -np.inf], pa.float32(), "Received: -inf"),
        ([1, 2**63], pa.uint64(), "Received: 9223372036854775808, above the largest int64"),
        ([True], pa.bool_(), r"expected times: integers.* the type bool\. Convert"),
        ([1], pa.time32("s"), r"the type time32\[s\]"),
        ([1], pa.duration("s"), r"the type duration\[s\]"),
        ([[1]], pa.list_(pa.int64()), r"the type list"),
        ([b"2025-11-01"], pa.binary(), "the type binary"),
    ],
)
def test_what_is_no_time_is_refused_by_its_value(values, kind, message):
    with pytest.raises(DataError, match=rf"a\.parquet: column 'at' \(data\.time\): .*{message}"):
        _ticks(pa.array(values, kind))


def test_one_time_is_what_its_column_holds():
    noon = "2025-11-01T12:00:00.5"
    day = 1_761_955_200
    assert to_tick(noon, pa.date32()) == day
    assert to_tick(noon, pa.date32(), up=True) == day + 86_400
    assert to_tick(noon, pa.timestamp("s")) == day + 43_200
    assert to_tick(noon, pa.timestamp("s"), up=True) == day + 43_201
    assert to_tick(np.datetime64("2025-11-01T12"), pa.timestamp("s")) == day + 43_200
    assert to_tick(np.datetime64("NaT"), pa.timestamp("s")) is None
    assert to_tick(dt.date(2025, 11, 1), pa.timestamp("ms")) == day * 1000
    zoned = dt.datetime(2025, 11, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1)))
    assert to_tick(zoned, pa.timestamp("ns", BERLIN)) == day * 10**9
    assert [to_tick(-1.5, pa.int64()), to_tick(-1.5, pa.int64(), up=True)] == [-2, -1]
    assert to_tick(-1.5, pa.float64()) == -1.5
    for number in (np.int64(5), np.float32(5), np.uint8(5)):  # as a log's own arrays hold them
        assert [to_tick(number, kind) for kind in (pa.int64(), pa.float64())] == [5, 5]
    wrong = [("2025-11-01", pa.int64()), (3, pa.date32()), ("11/01/2025", pa.string()),
             (True, pa.int64()), ("3", pa.int64()), (None, pa.timestamp("s")),
             (np.nan, pa.float64()), (np.float32("inf"), pa.int64()), (np.bool_(1), pa.int64()),
             (np.timedelta64(5, "s"), pa.int64())]  # fmt: skip
    assert [to_tick(value, kind) for value, kind in wrong] == [None] * len(wrong)


def test_units_and_zones_of_files_have_one_type():
    files = [
        pa.chunked_array([pa.array([20_000], pa.date32())]),
        pa.chunked_array([pa.array([1_728_000_000_000], pa.timestamp("ms", BERLIN))]),
        pa.chunked_array([pa.array([1_728_000_000 * 10**9 + 1], pa.timestamp("ns"))]),
    ]
    kind = functools.reduce(common_time_type, [column.type for column in files])
    assert kind == pa.timestamp("ns", "UTC")
    found = [_ticks(cast_exactly(column, kind)) for column in files]
    second = 1_728_000_000 * 10**9
    np.testing.assert_array_equal(np.concatenate(found), [second, second, second + 1])
    assert common_time_type(pa.timestamp("s"), pa.date32()) == pa.timestamp("s")
    assert common_time_type(*[pa.timestamp("s", BERLIN)] * 2) == pa.timestamp("s", BERLIN)
    assert common_time_type(pa.date32(), pa.date64()) == pa.timestamp("ms")


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (pa.array([2**53 + 1]), pa.float64()),
        (pa.array([10**12], pa.timestamp("s")), pa.timestamp("ns")),
    ],
    ids=str,
)
def test_a_time_that_does_not_fit_is_not_rounded(column, kind):
    with pytest.raises(pa.ArrowInvalid):
        cast_exactly(pa.chunked_array([column]), kind)


def test_times_are_shown_by_the_second():
    assert shown_time(7, pa.int64()) == 7
    assert shown_time(86_400, pa.date32()) == "1970-01-02"
    assert shown_time(-62_135_596_800, pa.timestamp("s")) == "0001-01-01 00:00:00"
    assert shown_time(61 * 10**9 + 1, pa.timestamp("ns", "UTC")) == "1970-01-01 00:01:01+00:00"


@pytest.mark.parametrize(
    ("tick", "kind"),
    [
        (1_762_000_000_123_457, pa.timestamp("us")),
        (1_762_000_000_123, pa.timestamp("ms", "Europe/Berlin")),
        (1_762_000_000_123_456_789, pa.string()),
        (-86_400, pa.date32()),
        (1_762_000_000, pa.int64()),
        (1_762_000_000.1234567, pa.float64()),
    ],
)
def test_exact_times_are_read_as_they_were(tick, kind):
    assert read_exact_time(exact_time(tick, kind), kind) == tick
    assert read_exact_time("no time", kind) is None


def test_times_and_missing_values_need_no_tensorflow():
    code = (
        "import sys, serving.state.columns.times, serving.state.columns.missing; "
        "print({'tensorflow', 'keras'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
