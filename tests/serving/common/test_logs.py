"""Received text starts no line of the log."""

from __future__ import annotations

import json
import logging
import sys
import threading

import pytest

from serving.common.logs import JsonLines, OneLine, set_up

FORGED = "x\n2026-01-01 ERROR forged\r\x1b[2J\u2028end"


def test_received_text_starts_no_line_of_the_log() -> None:
    formatter = OneLine("%(levelname)s %(message)s")
    try:
        raise ValueError(FORGED)
    except ValueError:
        failed = logging.LogRecord("a", logging.ERROR, "", 1, "%s é", (FORGED,), sys.exc_info())
    first, *others = formatter.format(failed).split("\n")
    assert first == r"ERROR x\n2026-01-01 ERROR forged\r\x1b[2J\u2028end é"
    assert len(others) > 3
    assert all(line.startswith("  ") for line in others), "the traceback, which is indented"
    assert all((first + "".join(others)).find(one) < 0 for one in "\r\x1b\u2028")


def _failed(error: Exception, message: str = "%s failed") -> logging.LogRecord:
    try:
        raise error
    except type(error):
        return logging.LogRecord("a.b", logging.ERROR, "", 1, message, (FORGED,), sys.exc_info())


def test_each_record_is_one_line_of_json() -> None:
    text = JsonLines().format(_failed(ValueError(FORGED)))
    assert text.isascii()
    assert "\n" not in text
    line = json.loads(text)
    assert (line["level"], line["logger"], line["message"]) == ("ERROR", "a.b", f"{FORGED} failed")
    assert line["traceback"].endswith(f"ValueError: {FORGED}")


@pytest.mark.parametrize(("error", "logged"), [(SystemExit(0), 0), (KeyError("x"), 1)])
def test_thread_that_exits_is_no_failure(
    error: BaseException,
    logged: int,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module, name in ((sys, "excepthook"), (sys, "unraisablehook"), (threading, "excepthook")):
        monkeypatch.setattr(module, name, getattr(module, name))
    monkeypatch.setattr(logging, "captureWarnings", lambda capture: None)
    set_up("json")

    def fail() -> None:
        raise error

    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    assert [record.levelname for record in caplog.records] == ["CRITICAL"] * logged
