"""A line of JSON for each request."""

from __future__ import annotations

import json

import pytest

from serving.common.errors import NotFound
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
