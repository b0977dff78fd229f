"""Settings that differ are named by their keys, with both values."""

from typing import Any

import pytest

from pipelines.workflow.differences import differences

PRICE = {"name": "price", "kind": "numeric", "transform": ["log1p"]}
USER = {"name": "user", "kind": "categorical", "width": None}


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ({"a": {"b": 1}}, {"a": {"b": 1}}, []),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 3, "c": 2}}, ["`a.b` was 1 and is 3 now"]),
        ({"a": None}, {"a": "x"}, ['`a` was not set and is "x" now']),
        ({"a": None}, {"a": {"b": 1}}, ['`a` was not set and is {"b": 1} now']),
        (
            {"features": [USER, PRICE]},
            {"features": [{**USER, "width": 8}, {**PRICE, "transform": []}]},
            [
                "`features.user.width` was not set and is 8 now",
                '`features.price.transform` was ["log1p"] and is [] now',
            ],
        ),
        (
            {"features": [USER, PRICE]},
            {"features": [{**PRICE, "kind": "sequence"}]},
            [
                '`features` was ["user", "price"] and is ["price"] now',
                '`features.price.kind` was "numeric" and is "sequence" now',
            ],
        ),
        ({"a": 1, "b": 1}, {"b": 2, "a": 2}, ["`b` was 1 and is 2 now", "`a` was 1 and is 2 now"]),
    ],
)
def test_each_key_that_differs_is_named(before: Any, now: Any, expected: list[str]) -> None:
    assert differences(before, now) == expected


def test_a_long_value_is_cut_and_no_password_is_shown() -> None:
    (clause,) = differences({"path": "s3://key:secret@bucket/x"}, {"path": "y" * 200})
    assert "s3://bucket/x" in clause
    assert "secret" not in clause
    assert len(clause) < 200
