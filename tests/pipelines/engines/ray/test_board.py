"""Workers of a training tell how they fare, and hear what to do."""

from __future__ import annotations

import re

import pytest

from pipelines.engines.ray import board as board_module
from pipelines.engines.ray.board import Board, News, Order, State, sentence

RUNNING, DONE = State("", None, ""), State("", 0, "")


def test_the_end_is_when_all_have_ended() -> None:
    board = Board(2)
    assert board.tell(0, DONE) is Order.GO_ON
    assert board.tell(1, RUNNING) is Order.GO_ON
    assert board.tell(1, DONE) is Order.END
    assert board.tell(0, DONE) is Order.END


def test_the_first_workers_lines_are_news_once() -> None:
    board = Board(2)
    board.tell(0, State("a\n", None, ""))
    board.tell(1, State("other\n", None, ""))
    board.tell(0, State("b\n", None, ""))
    assert [board.news(), board.news()] == [News("a\nb\n", ""), News("", "")]


def test_after_a_failure_the_others_have_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    board, now = Board(2), 7.0
    monkeypatch.setattr(board_module.time, "monotonic", lambda: now)
    assert board.tell(1, State("", 1, "Error: The disk is full.\n")) is Order.GO_ON
    now += 59
    assert board.tell(0, RUNNING) is Order.GO_ON
    now += 2
    assert board.tell(0, State("", 1, "Error: A worker is lost.\n")) is Order.END
    assert board.news().failure == "The disk is full."  # the first one's


def test_workers_are_asked_to_stop() -> None:
    board = Board(1)
    assert not board.order(Order.STOP)  # none has started
    assert board.tell(0, RUNNING) is Order.STOP
    assert board.order(Order.STOP)
    assert board.tell(0, State("", -15, "")) is Order.END


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("notice\nError: [data] is gone.\n", 1, r"^\[data\] is gone\.$"),
        ("", -9, r"^Worker 1 of 2 ended with exit code -9\. Start again: training goes on"),
        ("Traceback:\nKeyError: 3\n", 1, r"^Worker 1 of 2 ended with exit code 1: KeyError: 3\. "),
    ],
    ids=["its own", "killed", "a bug"],
)
def test_a_worker_that_fails_is_one_sentence(text: str, code: int, message: str) -> None:
    assert re.search(message, sentence(1, 2, State("", code, text)))
