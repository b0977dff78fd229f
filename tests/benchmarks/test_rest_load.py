"""The benchmark of large REST bodies: the largest that are allowed, and the table."""

from __future__ import annotations

import json

import pytest

from benchmarks.rest_load import table_of, times_of
from benchmarks.servers.bodies import CASES, LARGEST, ROW
from benchmarks.servers.subjects import schema_of
from serving.common.errors import ResourceExhausted
from serving.rest.bodies import LIST_BYTES, unpacked


@pytest.mark.parametrize("name", sorted(set(CASES) - {"gzip"}))
def test_bodies_are_the_largest_that_are_allowed(name: str) -> None:
    body = CASES[name]()
    assert len(body.content) == LARGEST
    text = unpacked(body.content, body.encoding, LARGEST).decode()
    lists = text.count("[") + text.count("{")
    spaces = LARGEST - len(text.rstrip())
    assert spaces < 2**10 or lists > LARGEST // LIST_BYTES - 2**10
    assert isinstance(json.loads(text), dict)


def test_the_gzip_is_small_and_refused() -> None:
    body = CASES["gzip"]()
    assert len(body.content) < LARGEST
    with pytest.raises(ResourceExhausted, match="packed or unpacked"):
        unpacked(body.content, body.encoding, LARGEST)


def test_a_row_has_the_features_of_the_model() -> None:
    assert set(ROW) == {feature.name for feature in schema_of("logistic_regression").features}


def test_requests_are_sent_until_the_time_is_over() -> None:
    sent: list[None] = []
    times = times_of(lambda: sent.append(None), 0.05)
    assert len(times) == len(sent) > 0
    assert min(times) >= 0


def test_medians_and_maxima() -> None:
    rows = {
        "quiet": (["", "", ""], {"health": [3.0, 1.0, 2.0], "row": [4.0]}),
        "ones": (["5", "400", "0.1"], {"health": [7.0, 8.0, 60.0], "row": [9.0]}),
    }
    assert [list(column.cells) for column in table_of(rows).columns] == [
        ["quiet", "ones"],
        ["", "5"],
        ["", "400"],
        ["", "0.1"],
        ["2.0", "8.0"],
        ["3.0", "60.0"],
        ["4.0", "9.0"],
        ["4.0", "9.0"],
    ]
