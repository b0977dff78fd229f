"""Labels, requests to rank and times of each split."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from pipelines.ingest.data_options import DataOptions
from pipelines.ingest.source import Source
from pipelines.ingest.split_summary import SplitSummary
from recsys_attn.schema import Categorical, Schema, Task

SCHEMA = Schema((Categorical("item"),), (Task("click"), Task("buy", mask="seen")))
OPTIONS = DataOptions(source="frappe", split={"by": "time", "column": "at"})


def rows(seed: int, requests: int = 40) -> pa.Table:
    rng = np.random.default_rng(seed)
    request = np.repeat(np.arange(requests), rng.integers(1, 12, requests))
    choices = np.array([0, 1, None], object)
    return pa.table(
        {
            "request": request,
            "click": pa.array(rng.choice(choices, len(request)), pa.int8()),
            "buy": pa.array(rng.choice(choices, len(request)), pa.int8()),
            "seen": pa.array(rng.choice(np.array([True, False, None], object), len(request))),
            "at": rng.integers(0, 1000, len(request)),
        }
    )


def test_counts_are_those_of_the_loop_over_rows() -> None:
    parts = [rows(1), rows(2)]
    summary = SplitSummary(SCHEMA, OPTIONS, Source(request="request"))
    for part in parts:
        summary.add("train", part)
    labels = {"click": [], "buy": []}
    comparable = {"click": 0, "buy": 0}
    for part in parts:
        for request in range(40):
            of_request = [row for row in part.to_pylist() if row["request"] == request]
            clicks = [row["click"] for row in of_request]
            buys = [row["buy"] if row["seen"] else None for row in of_request]
            for task, found in (("click", clicks), ("buy", buys)):
                labels[task] += [label for label in found if label is not None]
                comparable[task] += {0, 1} <= set(found)
    for task, known in labels.items():
        assert summary.labels[task]["train"] == [len(known), sum(known)]
        assert 5 < summary.comparable[task]["train"] == comparable[task] < 60
        assert summary.comparable[task]["valid"] == 0
    ends = [part["at"].to_numpy() for part in parts]
    first, last = min(map(min, ends)), max(map(max, ends))
    assert summary.times == {"column": "at", "train": [first, last]}


@pytest.mark.parametrize(
    ("time", "shown"),
    [(dt.datetime(2026, 3, 1, 7, 5), "2026-03-01 07:05:00"), (dt.date(2026, 3, 1), "2026-03-01")],
)
def test_times_are_written_as_text(time: dt.date, shown: str) -> None:
    summary = SplitSummary(None, OPTIONS, Source())
    summary.add("test", pa.table({"at": [time, None]}))
    assert summary.times == {"column": "at", "test": [shown, shown]}
    assert SplitSummary(None, DataOptions(source="frappe"), Source()).times is None
