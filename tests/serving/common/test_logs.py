"""Whatever a caller sends, each line of the log is the server's own."""

from __future__ import annotations

import json
import logging
import sys

from serving.common.logs import JsonLines, OneLine

FORGED = "x\n2026-01-01 ERROR forged\r\x1b[2J\u2028end"


def test_what_was_sent_begins_no_line() -> None:
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
