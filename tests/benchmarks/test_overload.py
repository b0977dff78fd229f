"""The overload benchmark's arithmetic: goodput, refusals, and requests that do not wait."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks.overload import CORES, Cell, Seen, refusal_seconds, share, table
from benchmarks.servers import open_loop


def test_goodput_is_a_share_of_what_the_generator_leaves() -> None:
    most, loaded = Seen(), Seen()
    most.add({"codes": {"OK": 100}, "seconds": 10.0, "own": 0.0, "server": 8.0})
    found = {"codes": {"OK": 40, "RESOURCE_EXHAUSTED": 160}, "server": 4.0}
    loaded.add({**found, "seconds": 10.0, "own": 5.0 * CORES})
    np.testing.assert_allclose(share(loaded, most), 40 / 5.0 / 10.0)
    np.testing.assert_allclose(refusal_seconds(loaded, 8.0 / 100), (4.0 - 40 * 0.08) / 160)
    rows = table({Cell(200, "ours", 0): most, Cell(200, "ours", 2): loaded})
    assert [next(iter(column.cells)) for column in rows.columns][3:] == [
        "0.80",
        "80.00",
        "5.00",
        "0.062",
    ]


def test_open_loop_waits_for_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """All requests are sent in time although none is answered in the measured seconds."""
    monkeypatch.setattr(open_loop, "_WARM", 0.05)
    monkeypatch.setattr(open_loop, "processor_seconds", lambda pid: 0.0)
    begin, sent = time.perf_counter(), Counter[str]()

    async def call(deadline: float) -> str:
        sent["all"] += 1
        await asyncio.sleep(deadline)
        return "OK"

    sender: Any = SimpleNamespace(call=call)
    options = {"server": 0, "rate": 500.0, "seconds": 0.2, "seed": 1}
    found = asyncio.run(open_loop.open_loop(sender, deadline=0.5, **options))
    assert found["codes"] == {}
    assert sent["all"] > 60
    assert time.perf_counter() - begin >= 0.5
