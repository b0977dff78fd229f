"""The events and the keys of the benchmark of pretraining."""

from __future__ import annotations

import pyarrow as pa

from benchmarks.pretraining import actions


def test_consecutive_actions_on_an_item_are_one_event() -> None:
    """Of a session's histories, which grow, the longest counts."""
    train = pa.table(
        {
            "session_id": ["a", "b", "a", "c"],
            "acted_items": [["1"], ["3", "3"], ["1", "1", "2", "2", "1"], ["3"]],
            "acted_types": [["x"], ["x", "y"], ["x", "y", "x", "y", "z"], ["y"]],
        }
    )
    found = actions(train).drop_columns("place").to_pylist()
    assert [tuple(row.values()) for row in found] == [
        ("a", "1", "x"),
        ("a", "2", "x"),
        ("a", "1", "z"),
        ("b", "3", "x"),
        ("c", "3", "y"),  # another session
    ]
