"""trivago: one row per listed item, with features of the session."""

import math

import pytest

from pipelines.ingest.datasets.trivago import COLUMNS
from tests.pipelines.ingest.files import read_all, run, write_parquet, write_text

SPLIT = {"by": "user", "valid": 0.3, "test": 0.3}


def _action(user, step, action, reference, impressions="", prices="", filters="", session=None):
    session = session or f"s{user}"
    when = 1541599523 + 60 * step
    shown = [filters, impressions, prices]
    return [user, session, when, step, action, reference, "FR", "Paris, Fr", "mobile", *shown]


def _session(user):
    return [
        _action(user, 1, "search for destination", "Paris, France"),
        _action(user, 2, "interaction item image", "30"),
        _action(user, 3, "interaction item info", "20"),
        _action(user, 4, "interaction item image", "20"),
        _action(user, 5, "clickout item", "10", "10|20|30|40", "90|60|60", filters="Hotel|Spa"),
        _action(user, 6, "clickout item", "30", "10|20|30", "80|60|100"),
        _action(user, 7, "clickout item", "99", "10|20|30", "80|60|100"),
        _action(user, 8, "interaction item image", "10"),
        # The same session id starts again: another visit, which saw nothing of the first.
        _action(user, 1, "clickout item", "10", "10|20", "80|60"),
        _action(user, 5, "clickout item", "20", "10|20", "80|60"),
    ]


@pytest.fixture(params=["csv", "csv.gz", "parquet"])
def rows(request, tmp_path):
    actions = [action for user in range(20) for action in _session(user)]
    if request.param == "parquet":
        columns = {
            name: [str(v) if name == "user_id" else (v if v != "" else None) for v in values]
            for name, values in zip(COLUMNS, zip(*actions, strict=True), strict=True)
        }
        write_parquet(tmp_path / "actions.parquet", **columns)
    else:
        lines = [",".join(f'"{cell}"' for cell in action) for action in actions]
        text = "\n".join([",".join(COLUMNS), *lines]) + "\n"
        write_text(tmp_path / f"train.{request.param}", text)
    summary = run(tmp_path / "out", source="trivago", path=str(tmp_path), split=SPLIT)
    assert summary["request"] == "request_id"
    assert sum(summary["rows"].values()) == 20 * (4 + 3 + 2 + 2)
    found = read_all(tmp_path / "out").to_pylist()
    return [row for row in found if row["user_id"] == "7"]


def test_one_row_per_impression_of_a_clicked_list(rows):
    requests = [row["request_id"] for row in rows]
    assert requests == ["s7-5"] * 4 + ["s7-6"] * 3 + ["s7.1-1"] * 2 + ["s7.1-5"] * 2
    assert [row["item_id"] for row in rows[:4]] == ["10", "20", "30", "40"]
    assert [row["click"] for row in rows] == [1, 0, 0, 0, 0, 0, 1, 1, 0, 0, 1]
    assert [row["position"] for row in rows[:4]] == [1, 2, 3, 4]
    assert rows[0]["timestamp"] == 1541599823
    assert (rows[0]["hour"], rows[0]["weekday"]) == (14, 2)
    assert rows[0]["current_filters"] == ["Hotel", "Spa"]
    assert rows[4]["current_filters"] == []


def test_the_sessions_earlier_actions(rows):
    assert rows[0]["acted_items"] == ["30", "20", "20"]
    assert rows[0]["acted_types"] == [
        "interaction item image",
        "interaction item info",
        "interaction item image",
    ]
    assert rows[0]["last_action_type"] == "interaction item image"
    assert rows[4]["acted_items"] == ["30", "20", "20", "10"]
    assert rows[4]["acted_types"][-1] == "clickout item"
    assert (rows[7]["acted_items"], rows[7]["last_action_type"]) == ([], None)
    assert [row["actions_on_item"] for row in rows[:4]] == [0, 2, 1, 0]
    assert [row["steps_since_item"] for row in rows[:4]] == [None, 1, 3, None]
    assert [row["is_last_item"] for row in rows[:7]] == [0, 1, 0, 0, 1, 0, 0]


def test_prices_in_their_list(rows):
    assert [row["price_rank"] for row in rows[4:7]] == [2, 1, 3]
    assert [row["price_to_mean"] for row in rows[4:7]] == [1.0, 0.75, 1.25]
    # Three prices for four items cannot be told apart: they are unknown.
    assert [row["price"] for row in rows[:4]] == [None] * 4
    # The heuristics order the first list.
    first = rows[:4]
    assert [row["heuristic_position"] for row in first] == [-1, -2, -3, -4]
    ordered = sorted(first, key=lambda row: -row["heuristic_last_item"])
    assert [row["item_id"] for row in ordered] == ["20", "30", "10", "40"]
    assert all(math.isfinite(row["heuristic_last_item"]) for row in rows)
