"""A line of JSON for each request."""

from __future__ import annotations

import io
import json
import logging
import threading

import pytest

from serving.common.errors import NotFound
from serving.observability import access_log
from serving.observability.access_log import log_access
from tests.serving.traces import trace


def test_each_request_is_a_line_of_json(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "serving.access")
    log_access(
        trace("Predict", request_id="r1", model="ctr", version=5, signature="rank", candidates=200,
             rows=1, seconds=0.0123456)
    )  # fmt: skip
    log_access(trace("Classify", "REST", request_id="r2", model="x", error=NotFound('"no"\nmodel')))
    good, bad = (json.loads(record.message) for record in caplog.records)
    assert (good["request_id"], good["code"], good["candidates"]) == ("r1", "OK", 200)
    assert (good["milliseconds"], "error" in good) == (12.346, False)
    assert (bad["code"], bad["error"], bad["entrypoint"]) == ("NOT_FOUND", '"no"\nmodel', "REST")


def test_slow_standard_error_delays_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even with more lines than are kept."""
    written, go = io.StringIO(), threading.Event()

    class Slow:
        def write(self, text: str) -> None:
            assert go.wait(10)
            written.write(text)

        def flush(self) -> None:
            pass

    logger = logging.getLogger("serving.access")
    monkeypatch.setattr(access_log, "_MOST_LINES", 7)
    monkeypatch.setattr("sys.stderr", Slow())
    for name in ("handlers", "propagate", "level"):
        monkeypatch.setattr(logger, name, getattr(logger, name))
    monkeypatch.setattr(logger, "handlers", [])
    writer = access_log.log_to_standard_error()
    for _ in range(100):
        log_access(trace())
    assert written.getvalue() == ""
    go.set()
    writer.stop()
    lines = [json.loads(line) for line in written.getvalue().splitlines()]
    assert 7 <= len(lines) <= 8, "the thread has one in hand"
