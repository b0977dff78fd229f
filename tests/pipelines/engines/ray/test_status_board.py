"""The status board of Ray training workers."""

import re

import pytest

from pipelines.engines.ray import status_board as board_module
from pipelines.engines.ray.status_board import Command, StatusBoard, WorkerStatus, failure_message

RUNNING, DONE = WorkerStatus("", None, ""), WorkerStatus("", 0, "")


def test_the_end_is_when_all_have_ended() -> None:
    board = StatusBoard(2)
    assert board.report(0, DONE) is Command.CONTINUE
    assert board.report(1, RUNNING) is Command.CONTINUE
    assert board.report(1, DONE) is Command.END
    assert board.report(0, DONE) is Command.END


def test_workers_end_a_minute_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    board, now = StatusBoard(2), 7.0
    monkeypatch.setattr(board_module.time, "monotonic", lambda: now)
    assert board.report(1, WorkerStatus("", 1, "Error: The disk is full.\n")) is Command.CONTINUE
    now += 59
    assert board.report(0, RUNNING) is Command.CONTINUE
    now += 2
    assert board.report(0, WorkerStatus("", 1, "Error: A worker is lost.\n")) is Command.END
    assert board.take_update().failure == "The disk is full."  # the first one's


def test_workers_are_asked_to_stop() -> None:
    board = StatusBoard(1)
    assert not board.send(Command.STOP)  # none has started
    assert board.report(0, RUNNING) is Command.STOP
    assert board.send(Command.STOP)
    assert board.report(0, WorkerStatus("", -15, "")) is Command.END


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("notice\nError: [data] is gone.\n", 1, r"^\[data\] is gone\.$"),
        ("", -9, r"^Worker 1 of 2 ended with exit code -9\. Start again: training resumes"),
        ("Traceback:\nKeyError: 3\n", 1, r"^Worker 1 of 2 ended with exit code 1: KeyError: 3\. "),
    ],
    ids=["its own", "killed", "a bug"],
)
def test_failure_message_of_a_worker(text: str, code: int, message: str) -> None:
    assert re.search(message, failure_message(1, 2, WorkerStatus("", code, text)))
