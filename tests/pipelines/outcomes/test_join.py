"""The join of a log with outcomes, beside slow loops over both."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.pipelines.outcomes.shown import (
    TIMES,
    World,
    beyond,
    random_calls,
    random_events,
    write_events,
    write_log,
)


@pytest.mark.parametrize("times", [*TIMES])
@pytest.mark.parametrize("by_request", [True, False])
@pytest.mark.parametrize("with_state", [True, False])
def test_rows_are_those_of_slow_loops(
    tmp_path: Path, times: str, by_request: bool, with_state: bool
) -> None:
    world = World(tmp_path, TIMES[times], by_request)
    with_state = with_state and times == "seconds"
    calls = random_calls(seed=by_request + 10 * with_state, with_state=with_state)
    events = [*random_events(3, calls), beyond(calls)]
    write_log(world.log, calls)
    half = len(events) // 2
    write_events(world.events / "b.parquet", events[:half], world.times)
    write_events(world.events / "below/a.jsonl", events[half:], world.times)
    joined = world.join()
    world.check(calls, events)
    assert joined.manifest.hours.keys() == {path.stem for path in world.rows.glob("*.parquet")}
    assert not joined.waiting
