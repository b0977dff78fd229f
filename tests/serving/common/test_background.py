"""The thread that loads models, and threads that repeat an action."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from serving.common.background import PeriodicThread, SerialWorker
from serving.common.errors import NotFound, Unavailable
from tests.serving.conftest import wait_until


@pytest.fixture
def worker() -> Iterator[SerialWorker]:
    worker = SerialWorker("loading")
    yield worker
    worker.stop()


def _raise() -> None:
    raise RuntimeError("of its own")


def test_results_and_errors_are_passed_on(
    worker: SerialWorker, caplog: pytest.LogCaptureFixture
) -> None:
    assert worker.run(lambda: 7) == 7
    with pytest.raises(RuntimeError, match="of its own"):
        worker.run(_raise)
    assert not caplog.text
    worker.schedule(_raise)
    worker.run(lambda: None)
    assert "of its own" in caplog.text


def test_functions_run_one_after_the_other(worker: SerialWorker) -> None:
    running, most = [], []

    def work() -> None:
        running.append(1)
        most.append(len(running))
        running.pop()

    threads = [threading.Thread(target=worker.run, args=(work,)) for _ in range(7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)
    assert most == [1] * 7


def test_no_work_is_accepted_after_stop(worker: SerialWorker) -> None:
    worker.stop()
    with pytest.raises(Unavailable):
        worker.run(lambda: 7)
    worker.schedule(_raise)


def test_periodic_errors_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """An error is logged again after a call that succeeded."""
    calls: list[int] = []

    def action() -> None:
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError("unexpected")
        if len(calls) not in (4, 5):
            raise NotFound("no such model")

    periodic = PeriodicThread("calls", action)
    periodic.start(0.001)
    wait_until(lambda: len(calls) > 7)
    periodic.stop()
    made = len(calls)
    messages = [record.getMessage() for record in caplog.records]
    expected = "no such model (next attempt in 0.001 s)"
    assert messages == ["Background work failed", expected, expected]
    threading.Event().wait(0.01)
    assert len(calls) == made
