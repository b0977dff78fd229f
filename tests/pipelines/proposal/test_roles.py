"""Users, items, times, requests and labels are found by names and values, or named."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pipelines.common.errors import PipelineError
from pipelines.proposal.looked_at import Column
from pipelines.proposal.roles import NamedRoles, Roles, guess_roles, time_unit
from serving.state.errors import DataError
from tests.pipelines.proposal.logs import feed


def roles_of(rows: dict[str, Any], **named: Any) -> Roles:
    columns = [Column(name, pa.array(values)) for name, values in rows.items()]
    return guess_roles(columns, NamedRoles(**named), "rows.parquet")


def names(roles: Roles) -> dict[str, Any]:
    labels = [label.name for label in roles.labels]
    single = {key: getattr(roles, key) for key in ("user", "item", "time", "request")}
    return {"labels": labels} | {key: of and of.name for key, of in single.items()}


def test_roles_of_a_feed_are_found() -> None:
    assert names(roles_of(feed())) == {
        "labels": ["is_click", "is_like"],
        "user": "userId",
        "item": "video_id",
        "time": "shown_at",
        "request": None,
    }


def test_named_columns_count_before_guesses() -> None:
    named = {"user": "country", "item": "author_id", "time": "seen_on", "labels": ("is_rand",)}
    assert names(roles_of(feed(), **named)) == {**named, "labels": ["is_rand"], "request": None}


@pytest.mark.parametrize(
    ("request_ids", "expected"),
    [
        (np.arange(60) // 3, "request_id"),
        (np.arange(60) % 20, None),  # apart from each other
        (np.arange(60), None),  # one row each
        (np.arange(60) // 6, None),  # of two users
    ],
    ids=["together", "apart", "single", "two users"],
)
def test_a_request_has_one_user_and_neighbouring_rows(
    request_ids: np.ndarray, expected: str | None
) -> None:
    rows = {"request_id": request_ids, "user": np.arange(60) // 3, "click": np.arange(60) % 2}
    assert names(roles_of(rows))["request"] == expected


@pytest.mark.parametrize(
    ("column", "values", "expected"),
    [
        ("day", [1, 2, 2], True),
        ("day", [3, 1, 2], False),  # numbers in no order, of no epoch
        ("hour", [0.0, np.nan, 1.0], False),
        ("x", [1_760_000_000, 1_760_000_000, 1_650_000_000], True),
        ("x", [1, 2, 3], False),
        ("when", ["2025-11-01", "2025-11-03", "2025-11-02"], True),
        ("when", ["2025-11-01", None, "2025-11-02"], False),
        ("when", [np.datetime64(s, "s") for s in (1, 2, 0)], True),
    ],
    ids=str,
)
def test_times_are_told_by_type_size_or_order(column: str, values: Any, expected: bool) -> None:
    rows = {"click": [0, 1, 1], column: values}
    assert (names(roles_of(rows))["time"] == column) == expected


@pytest.mark.parametrize(("second", "unit"), [(1, "s"), (10**3, "ms"), (10**9, "ns"), (0.1, None)])
def test_units_of_times_follow_from_their_size(second: float, unit: str | None) -> None:
    times = np.array([1_700_000_000, 1_760_000_000]) * second
    assert time_unit(Column("t", pa.array(times.astype(np.int64)))) == unit


@pytest.mark.parametrize(
    ("rows", "named", "message"),
    [
        ({"rating": [1, 5]}, {}, r"no label: .*Columns of 0 and 1: none. Of a number such as"),
        ({"a": [0, 1], "b": [1, 0]}, {}, r"Name them: --labels click,purchase. .*: a, b\."),
        ({"a": [0, 1], "b": [2, 0]}, {"labels": ("b",)}, r"--labels: .* Received: 'b', of int64"),
        ({"click": [0, 1]}, {"user": "usr"}, r"column 'usr' \(--user\) is missing"),
    ],
)
def test_columns_that_do_not_fit_are_refused(
    rows: dict[str, Any], named: dict[str, Any], message: str
) -> None:
    with pytest.raises((PipelineError, DataError), match=message):
        roles_of(rows, **named)


def test_the_only_flag_is_the_label() -> None:
    assert names(roles_of({"x": [0, 1], "y": [2, 3]}))["labels"] == ["x"]
