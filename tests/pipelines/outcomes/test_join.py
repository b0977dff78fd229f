"""The join of a log with outcomes, beside slow loops over both."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import shutil
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from pipelines.ingest import ingest
from pipelines.ingest.data_options import DataOptions
from pipelines.ingest.split_options import SplitOptions
from pipelines.outcomes.periods import hour_name
from tests.pipelines.outcomes.shown import (
    BEGIN,
    SCHEMA,
    TIMES,
    WINDOW,
    Event,
    Shown,
    World,
    beyond,
    expected,
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


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A folder by user and item, with times in seconds; empty."""
    return World(tmp_path, TIMES["seconds"], by_request=False)


def test_order_and_division_of_files_do_not_matter(world: World) -> None:
    calls = random_calls(5)
    events = [*random_events(7, calls), beyond(calls)]
    write_log(world.log, calls)
    write_events(world.events / "0.parquet", events, world.times)
    world.join()
    other = World(world.folder / "other", world.times, world.by_request)
    rng = np.random.default_rng(0)
    shuffled = [calls[place] for place in rng.permutation(len(calls))]
    write_log(other.log, shuffled, per_file=3)
    events = [events[place] for place in rng.permutation(len(events))]
    for number in range(3):
        write_events(other.events / f"{number}.jsonl", events[number::3], other.times)
    other.join()
    assert contents(other.rows) == contents(world.rows)


def test_sampled_log_gives_a_sample_of_the_rows(tmp_path: Path) -> None:
    world = World(tmp_path, TIMES["seconds"], by_request=True)
    calls = random_calls(11)
    events = [*random_events(13, calls), beyond(calls)]
    sample = [call for call in calls if int(call.request_id[1:]) % 3]
    write_log(world.log, sample, rate=0.66)
    write_events(world.events / "0.parquet", events, world.times)
    joined = world.join()
    chosen = {call.request_id for call in sample}
    wanted = [
        row
        for row in expected(calls, events, world.times, by_request=True)
        if row["request_id"].partition("@")[0] in chosen
    ]
    for name in ("request_id", "item", "click", "bought", "served_version"):
        assert [row[name] for row in world.found()] == [row[name] for row in wanted]
    hour = next(iter(joined.manifest.hours.values()))
    np.testing.assert_allclose(hour["sampling_rate"], 0.66, rtol=1e-6)
    assert any("0.66 of the requests" in remark for remark in joined.remarks())


def test_unmatched_outcomes_are_counted(world: World) -> None:
    calls = [Shown((BEGIN + 3500) * 10**6, "r0", 1, "u1", (3, 5))]
    second = 10**6
    at = calls[0].at
    events = [
        Event("r0", "u1", 3, at - second, 1, None),  # before
        Event("r0", "u1", 3, at + 200 * second, 1, None),  # in the next hour
        Event("r0", "u1", 4, at + 200 * second, 1, None),  # of another item
        Event("r0", None, 3, at, 1, None),
    ]
    write_log(world.log, calls)
    write_events(world.events / "0.jsonl", [*events, beyond(calls)], world.times)
    joined = world.join()
    (hour,) = joined.manifest.hours.values()
    assert hour["matched"] == {"2026-03-01T23": 1}
    assert (hour["outcomes"], hour["positives"]) == (2, {"click": 1, "bought": 0})
    assert joined.manifest.unmatched(["2026-03-01T22"]) == 2


def test_hour_is_written_once_its_window_is_over(world: World) -> None:
    calls = [Shown((BEGIN + 10) * 10**6, "r0", 1, "u1", (3,))]
    write_log(world.log, calls)
    end = (BEGIN + 3600 + WINDOW) * 10**6
    events = [Event("r0", "u1", 3, calls[0].at + 1, 1, None)]
    events.append(Event("r1", "u1", 3, end - 10**6, 1, None))
    write_events(world.events / "0.jsonl", events, world.times)
    joined = world.join()
    assert (joined.waiting, joined.written) == (["2026-03-01T22"], [])
    write_events(world.events / "1.jsonl", [Event("r1", "u1", 3, end, 1, None)], world.times)
    assert world.join().written == ["2026-03-01T22"]


def test_late_outcomes_remake_only_hours_they_touch(world: World) -> None:
    calls = random_calls(17)
    events = [*random_events(19, calls), beyond(calls)]
    write_log(world.log, calls)
    write_events(world.events / "0.parquet", events, world.times)
    assert len(world.join().written) == len({hour(call.at) for call in calls})
    before = stamps(world.rows)
    of = max(calls, key=lambda call: call.at)
    at = of.at + 10**6
    late = [Event(of.request_id, of.user, of.items[0], at, 1, 1)]
    write_events(world.events / "later.jsonl", late, world.times)
    touched = {hour(at), hour(at - WINDOW * 10**6)} & {hour(call.at) for call in calls}
    assert set(world.join().written) == touched
    after = stamps(world.rows)
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {f"{name}.parquet" for name in touched} | {"join.json"}
    world.check(calls, [*events, *late])


def test_file_that_grows_remakes_its_new_hours_alone(world: World) -> None:
    calls = [
        Shown((BEGIN + 3600 * number + 2400) * 10**6, f"r{number}", 1, "u1", (3,))
        for number in range(3)
    ]
    events = [Event("r0", "u1", 3, call.at + 10**6, 1, None) for call in calls]
    write_log(world.log, calls)
    write_events(world.events / "0.jsonl", [*events, beyond(calls)], world.times)
    assert len(world.join().written) == 3
    events = [*events, beyond(calls), Event("r2", "u1", 3, calls[2].at + 10**6, 1, 1)]
    write_events(world.events / "0.jsonl", events, world.times)
    assert world.join().written == ["2026-03-02T00"]
    world.check(calls, events)


def test_late_calls_remake_their_hour(world: World) -> None:
    calls = random_calls(23)
    events = [*random_events(29, calls), beyond(calls)]
    write_log(world.log, calls[::2])
    write_events(world.events / "0.parquet", events, world.times)
    world.join()
    write_log(world.log, calls[1::2])
    world.join()
    world.check(calls, events)


def test_nothing_is_written_if_nothing_has_changed(world: World) -> None:
    calls = random_calls(31)
    write_log(world.log, calls)
    write_events(world.events / "0.parquet", [beyond(calls)], world.times)
    world.join()
    before = stamps(world.rows)
    assert world.join().written == []
    assert stamps(world.rows) == before


def test_hour_whose_log_is_deleted_stays(world: World) -> None:
    calls = [Shown((BEGIN + 10 * n) * 10**6, f"r{n}", 1, "u1", (n,)) for n in range(4)]
    write_log(world.log, calls, per_file=1)
    write_events(world.events / "0.jsonl", [beyond(calls)], world.times)
    world.join()
    before = contents(world.rows)
    min(world.log.iterdir()).unlink()
    assert world.join().kept == []
    late = [Event("r3", "u1", 3, calls[3].at + 10**6, 1, None)]
    write_events(world.events / "1.jsonl", late, world.times)
    joined = world.join()
    assert joined.kept == ["2026-03-01T22"]
    assert "stay as they are" in next(joined.remarks())
    assert contents(world.rows) == before


def test_killed_at_any_step_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path, TIMES["seconds"], by_request=False)
    calls = random_calls(37, calls=2)
    events = [*random_events(41, calls, 11), beyond(calls)]
    write_log(world.log, calls)
    write_events(world.events / "0.parquet", events[::2], world.times)
    write_events(world.events / "1.jsonl", events[1::2], world.times)
    world.join(target="whole")
    whole, kills = contents(tmp_path / "whole"), 0
    for step in range(1, 1000):
        target = f"killed{step}"
        with monkeypatch.context() as patched, contextlib.suppress(Killed):
            kill_at(step, patched)
            world.join(target=target)
            break
        kills += 1
        world.join(target=target)
        assert contents(tmp_path / target) == whole
    assert kills > 20


class Killed(BaseException):
    """The process ends here."""


def kill_at(step: int, patched: pytest.MonkeyPatch) -> None:
    """Ends the process before or after a file operation, given by its number."""
    done = 0

    def interrupted(function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> Any:
            nonlocal done
            done += 1
            if done == step:
                raise Killed
            result = function(*arguments, **options)
            done += 1
            if done == step:
                if isinstance(result, io.IOBase):
                    result.close()
                raise Killed
            return result

        return run

    def removing(function: Callable[..., Any]) -> Callable[..., Any]:
        """A killed process removes nothing."""
        return lambda *arguments, **options: (
            None if done >= step else function(*arguments, **options)
        )

    for owner, name in (
        (Path, "replace"), (Path, "mkdir"), (Path, "write_text"), (Path, "open"),
        (pq.ParquetWriter, "write_table"), (os, "fsync"),
    ):  # fmt: skip
        patched.setattr(owner, name, interrupted(getattr(owner, name)))
    patched.setattr(Path, "unlink", removing(Path.unlink))
    patched.setattr(shutil, "rmtree", removing(shutil.rmtree))


def contents(folder: Path) -> dict[str, bytes]:
    """The files of rows."""
    return {path.name: path.read_bytes() for path in folder.glob("*.parquet")}


def stamps(folder: Path) -> dict[str, int]:
    """The times of the last change, of the files that stay."""
    return {path.name: path.stat().st_mtime_ns for path in folder.glob("[!.]*")}


def hour(micros: int) -> str:
    """The hour of a time."""
    return hour_name(micros // (3600 * 10**6))


class Elsewhere:
    """An engine whose workers get and return bytes alone, as those of a cluster."""

    def map_ordered(self, work: Any, batches: Sequence[Any]) -> Generator[Any]:
        with pickle.loads(pickle.dumps(work))() as function:
            for batch in batches:
                yield pickle.loads(pickle.dumps(function(pickle.loads(pickle.dumps(batch)))))


def test_workers_elsewhere_make_the_same_hours(world: World) -> None:
    calls = random_calls(43)
    write_log(world.log, calls)
    write_events(world.events / "0.parquet", [*random_events(1, calls), beyond(calls)], world.times)
    world.join()
    world.join(Elsewhere(), "elsewhere")
    assert contents(world.folder / "elsewhere") == contents(world.rows)


def test_rows_can_be_ingested(world: World) -> None:
    calls = random_calls(47, 307)
    events = [*random_events(53, calls, 997), beyond(calls)]
    write_log(world.log, calls)
    write_events(world.events / "0.parquet", events, world.times)
    world.join()
    options = DataOptions(
        source="parquet",
        path=str(world.rows),
        request="request_id",
        time_unit="s",
        split=SplitOptions(by="time", column="time"),
    )
    summary = ingest(options, SCHEMA, 0, world.folder / "data")
    assert sum(summary["rows"].values()) == len(world.found())
