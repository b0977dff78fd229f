"""Ragged lists to padded arrays, against loops over rows."""

import numpy as np
import pytest

from pipelines.common.errors import PipelineError
from pipelines.features.lists import check_aligned, pad_last

LISTS = [[1, 2, 3], None, [], [4, None], [5, 6, 7, 8, 9, 10, 11]]


@pytest.mark.parametrize("length", [1, 2, 3, 7, 11])
def test_the_last_events_are_kept(length):
    rng = np.random.default_rng(0)
    rows = [list(rng.integers(1, 99, n)) for n in (0, 1, 3, 11, 7)]
    ids = np.array([i for row in rows for i in row])
    padded = pad_last(ids, np.cumsum([0] + [len(row) for row in rows]), length)
    kept = [row[-length:] for row in rows]
    np.testing.assert_array_equal(padded, [row + [0] * (length - len(row)) for row in kept])
    assert padded.dtype == "int32"


def test_sequences_of_one_history_must_be_aligned():
    offsets = [np.array([0, 2, 5]), np.array([0, 2, 5]), np.array([0, 2, 4])]
    check_aligned(["items", "brands"], offsets[:2])
    message = r"'items' has 3 events and 'days' 2 in row 1 of this batch\. Align them"
    with pytest.raises(PipelineError, match=message):
        check_aligned(["items", "brands", "days"], offsets)
