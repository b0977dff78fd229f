"""Rows fall into the segments of their values."""

import datetime

import numpy as np
import pyarrow as pa
import pytest

from pipelines.evaluation.row_cuts import cross, cut, segment_metrics
from serving.state.columns.missing import MISSING_INT

DAYS = [datetime.date(2025, 11, day) for day in range(1, 21)]


def names(found):
    """The name of each row's segment, without the column."""
    return [found.names[code].partition("=")[2] for code in found.codes]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array(["b", None, "a", "", "b"]), ["b", "(missing)", "a", "(missing)", "b"]),
        (pa.array(["b", None, "a"]).dictionary_encode(), ["b", "(missing)", "a"]),
        (pa.array([True, None, False]), ["true", "(missing)", "false"]),
        (pa.array([10, 9, MISSING_INT, None]), ["10", "9", "(missing)", "(missing)"]),
        (pa.array([0.1, 2, np.nan], pa.float32()), ["0.1", "2", "(missing)"]),
        (pa.array(DAYS[:2]), ["2025-11-01", "2025-11-02"]),
        (
            pa.array([1, 2], pa.timestamp("ns")),
            [f"1970-01-01 00:00:00.00000000{n}" for n in (1, 2)],
        ),
        (pa.nulls(2), ["(missing)", "(missing)"]),
        (pa.array([10, None, *range(13)][1:]), ["(missing)"]),
    ],
)
def test_a_value_is_the_segment_of_its_rows(column, expected):
    found = cut("c", column)
    assert names(found)[: len(expected)] == expected
    assert all(name.startswith("c=") for name in found.names)
    assert len(found.names) == len(found.ranges) == len(set(found.names))
    assert set(found.codes) == set(range(len(found.names)))


def test_segments_stand_in_the_order_of_their_values():
    found = cut("n", pa.array([10, 9, None, 2]))
    assert found.names == ["n=2", "n=9", "n=10", "n=(missing)"]


def test_a_number_of_many_values_is_cut_at_its_quantiles():
    values = np.random.default_rng(0).permutation(1000) / 8
    found = cut("n", pa.array([None, *values]))
    assert names(found)[0] == "(missing)"
    codes = found.codes[1:]
    np.testing.assert_array_equal(np.bincount(codes), [200] * 5)
    np.testing.assert_array_equal(codes, values // 25)
    assert found.names == [*(f"n=q{i}" for i in range(1, 6)), "n=(missing)"]
    assert found.ranges[:2] == ["0..24.88", "25..49.88"]
    days = cut("day", pa.array(DAYS))
    assert days.ranges[0] == "2025-11-01..2025-11-04"


def test_equal_numbers_share_a_segment():
    values = np.repeat(np.arange(20), [500, *[10] * 19])
    found = cut("n", pa.array(values))
    for value in range(20):
        assert len(set(found.codes[values == value])) == 1
    assert (np.diff(found.codes) >= 0).all()
    assert found.ranges[0] == "0..0"
    assert len(found.names) == len(set(found.codes)) < 5


def test_rare_values_are_one_segment():
    counts = np.arange(60) + 1
    values = np.repeat([f"v{i:02}" for i in range(60)], counts)
    found = cut("id", pa.array(values))
    assert len(found.names) == 51
    assert (found.names[0], found.names[-1]) == ("id=v10", "id=(other)")
    assert found.ranges[-1] == "10 values"
    rows = np.bincount(found.codes)
    np.testing.assert_array_equal(rows, [*counts[10:], counts[:10].sum()])
    crossed = cross(found, cut("x", pa.array(np.tile([0, 1], len(values))[: len(values)])))
    assert len(crossed.names) == 51
    assert crossed.names[-1] == "id, x=(other)"
    assert np.bincount(crossed.codes).sum() == len(values)


def test_a_pair_has_the_combinations_with_rows():
    first = cut("a", pa.array(["x", "x", "y", "y", None]))
    second = cut("n", pa.array([1, 2, 2, 2, 1]))
    found = cross(first, second)
    assert found.names == ["a=x, n=1", "a=x, n=2", "a=y, n=2", "a=(missing), n=1"]
    assert found.codes.tolist() == [0, 1, 2, 2, 3]
    assert found.columns == ("a", "n")
    long = cross(first, cut("n", pa.array([1, 2, 3, 4, 5])))
    assert [long.names[code] for code in long.codes][4] == "a=(missing), n=5"


def test_rows_of_unknown_label_leave_their_segments():
    labels = np.array([0, 1, np.nan, 1, 0, np.nan])
    found = segment_metrics(
        [cut("a", pa.array(["x", "x", "x", "y", "y", "z"]))],
        labels,
        np.linspace(0.1, 0.9, 6),
        np.arange(6),
        True,
    )
    assert [(each["name"], each["rows"]) for each in found] == [("a=x", 2), ("a=y", 2), ("a=z", 0)]
    assert [each["auc"] for each in found] == [1, 0, None]
