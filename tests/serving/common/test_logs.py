"""Whatever a caller sends, each line of the log is the server's own."""

from __future__ import annotations

import logging
import sys

from serving.common.logs import OneLine

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
