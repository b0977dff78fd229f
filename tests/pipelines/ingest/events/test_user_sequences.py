"""Rows are the first events of each user."""

import numpy as np
import pyarrow as pa

from pipelines.ingest.events import user_sequences
from pipelines.ingest.events.event_options import EventOptions
from pipelines.ingest.events.user_sequences import Sequences
from tests.pipelines.ingest.events.logs import NAMES, random_log


def _sequences(events, **options):
    return Sequences(events, EventOptions(path="-", **NAMES, **options), 1)


def _known(**sizes):
    return random_log(**sizes).drop_null()


def test_the_last_two_events_are_the_targets():
    users = _sequences(_known())
    train, valid, test = users.lengths(None)
    many = users.counts >= 3
    np.testing.assert_array_equal(train, np.where(many, users.counts - 2, users.counts))
    np.testing.assert_array_equal(valid[many], users.counts[many] - 1)
    np.testing.assert_array_equal(test[many], users.counts[many])
    assert not valid[~many].any()
    assert not test[~many].any()


def test_rows_of_a_user_agree_where_they_overlap():
    users = _sequences(_known(), columns=("row",), session="visit")
    train, _, test = (users.rows(length).to_pylist() for length in users.lengths(None))
    longer = {row["who"]: row for row in test}
    for row in train:
        other = longer.get(row["who"], row)
        for name in ("film", "session", "row"):
            assert row[name] == other[name][: len(row[name])]
        since = np.subtract(other["age"][: len(row["age"])], row["age"])
        assert len(set(since)) == 1
        assert min(row["age"]) == row["age"][-1] == 0


def test_the_row_holds_the_items_and_lengths_of_zero_hold_none():
    users = _sequences(_known())
    rows = users.rows(users.counts)
    flat = [item for items in rows["film"].to_pylist() for item in items]
    assert users.items(users.counts).to_pylist() == flat
    assert users.rows(np.zeros_like(users.counts)).num_rows == 0


def test_ages_are_whole_seconds_of_times_with_fractions():
    times = [0.25, 1.0, 2.75, 3.0]
    users = _sequences(pa.table({"who": [3] * 4, "film": [5] * 4, "at": times}), session_gap=1.75)
    rows = users.rows(users.counts)
    assert rows["age"].to_pylist() == [[3, 2, 0, 0]]
    assert rows["session"].to_pylist() == [[0, 0, 1, 1]]  # by the times themselves


def test_a_gap_as_long_as_the_limit_starts_a_session():
    times = [0, 7, 13, 20, 40]
    events = pa.table({"who": [3] * 5, "film": [5] * 5, "at": times})
    users = _sequences(events, session_gap=7)
    assert users.rows(users.counts)["session"].to_pylist() == [[0, 1, 1, 2, 3]]


def test_a_session_that_returns_keeps_its_number():
    visit = [11, 5, 11, None, 5, None]
    events = pa.table({"who": [3] * 6, "film": [5] * 6, "at": range(6), "visit": visit})
    users = _sequences(events, session="visit")
    assert users.rows(users.counts)["session"].to_pylist() == [[0, 1, 0, 2, 1, 2]]


def test_users_of_one_hash_stay_apart(monkeypatch):
    monkeypatch.setattr(
        user_sequences, "user_hashes", lambda users: np.zeros(len(users), np.uint64)
    )
    events = pa.table({"who": ["b", "a", "b", "a"], "film": [2, 3, 5, 7], "at": [1, 2, 3, 4]})
    users = _sequences(events)
    assert users.rows(users.counts).select(["who", "film"]).to_pylist() == [
        {"who": "a", "film": [3, 7]},
        {"who": "b", "film": [2, 5]},
    ]
