"""The thread that loads: one thing at a time, out of the way of the requests."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from serving.common.background import Background, Periodic
from serving.common.errors import NotFound, Unavailable
from tests.serving.conftest import wait_until


@pytest.fixture
def background() -> Iterator[Background]:
    background = Background("loading")
    yield background
    background.stop()


def test_results_and_errors_come_back(background: Background) -> None:
    assert background.run(lambda: 7) == 7
    with pytest.raises(RuntimeError, match="of its own"):
        background.run(_raise)


def _raise() -> None:
    raise RuntimeError("of its own")


def test_one_thing_at_a_time(background: Background) -> None:
    at_work, most = [], []

    def work() -> None:
        at_work.append(1)
        most.append(len(at_work))
        at_work.pop()

    threads = [threading.Thread(target=background.run, args=(work,)) for _ in range(7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)
    assert most == [1] * 7


def test_a_failure_of_what_nobody_waits_for_is_logged(
    background: Background, caplog: pytest.LogCaptureFixture
) -> None:
    background.leave(_raise)
    background.run(lambda: None)
    assert "of its own" in caplog.text


def test_nothing_is_taken_once_stopped(background: Background) -> None:
    background.stop()
    with pytest.raises(Unavailable):
        background.run(lambda: 7)
    background.leave(_raise)


def test_a_periodic_call_tells_an_error_once_until_it_goes_well_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    calls = []

    def action() -> None:
        calls.append(1)
        if len(calls) not in (3, 4):
            raise NotFound("no such model")

    periodic = Periodic("calls", action)
    periodic.start(0.001)
    wait_until(lambda: len(calls) > 6)
    periodic.stop()
    assert [record.exc_info for record in caplog.records] == [None, None]
    assert "no such model (the next look comes in 0.001 s)" in caplog.text


def test_a_periodic_call_survives_a_failure() -> None:
    calls = []

    def action() -> None:
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError("the first one")

    periodic = Periodic("calls", action)
    periodic.start(0.001)
    wait_until(lambda: len(calls) > 2)
    periodic.stop()
    made = len(calls)
    threading.Event().wait(0.01)
    assert len(calls) == made
