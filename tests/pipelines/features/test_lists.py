"""Ragged lists to padded arrays, against loops over rows."""

import itertools

import numpy as np
import pyarrow as pa
import pytest

from pipelines.common.errors import PipelineError
from pipelines.features.lists import check_aligned, drop_missing, flatten_list, pad_last

LISTS = [[1, 2, 3], None, [], [4, None], [5, 6, 7, 8, 9, 10, 11]]


@pytest.mark.parametrize("part", [slice(None), slice(1, 4), slice(2, 2), slice(4, 5)])
def test_flattening_gives_the_values_and_where_each_row_is(part):
    column = pa.array(LISTS, pa.list_(pa.int64()))[part.start or 0 : part.stop or len(LISTS)]
    values, offsets = flatten_list(column)
    found = [values.to_pylist()[a:b] for a, b in itertools.pairwise(offsets)]
    assert found == [row or [] for row in LISTS[part]]
    assert len(values) == offsets[-1]


def test_an_event_is_dropped_where_all_of_its_sequences_are_missing():
    first, second = np.array([2, 0, 0, 3, 0]), np.array([0, 0, 4, 5, 0])
    (kept_first, kept_second), offsets = drop_missing([first, second], np.array([0, 2, 2, 5]))
    np.testing.assert_array_equal(kept_first, [2, 0, 3])
    np.testing.assert_array_equal(kept_second, [0, 4, 5])
    np.testing.assert_array_equal(offsets, [0, 1, 1, 3])


@pytest.mark.parametrize("length", [1, 2, 3, 7, 11])
def test_the_last_events_are_kept(length):
    rng = np.random.default_rng(0)
    rows = [list(rng.integers(1, 99, n)) for n in (0, 1, 3, 11, 7)]
    ids = np.array([i for row in rows for i in row])
    padded = pad_last(ids, np.cumsum([0] + [len(row) for row in rows]), length)
    kept = [row[-length:] for row in rows]
    np.testing.assert_array_equal(padded, [row + [0] * (length - len(row)) for row in kept])
    assert padded.dtype == "int32"


def test_no_rows_and_no_ids():
    assert pad_last(np.zeros(0, "int32"), np.array([0]), 3).shape == (0, 3)
    np.testing.assert_array_equal(
        pad_last(np.zeros(0, "int32"), np.zeros(3, int), 2), np.zeros((2, 2))
    )


def test_sequences_of_one_history_must_be_aligned():
    offsets = [np.array([0, 2, 5]), np.array([0, 2, 5]), np.array([0, 2, 4])]
    check_aligned(["items", "brands"], offsets[:2])
    message = r"'items' has 3 events and 'days' 2 in row 1 of this batch\. Align them"
    with pytest.raises(PipelineError, match=message):
        check_aligned(["items", "brands", "days"], offsets)
