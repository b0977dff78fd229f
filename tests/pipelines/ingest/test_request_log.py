"""Whole requests, and scattered requests."""

import pyarrow as pa
import pytest

from pipelines.common.errors import PipelineError
from pipelines.ingest.request_log import RequestLog


def _tables(*columns):
    return iter([pa.table({"request": pa.array(values, pa.string())}) for values in columns])


def test_scattered_request_is_an_error():
    log = RequestLog("request")
    for file, table in zip(("one", "two"), _tables("aabb", "c"), strict=True):
        log.add(table, file)
    log.check()
    for file, table in zip(("two", "three"), _tables("e", "da"), strict=True):
        log.add(table, file)
    with pytest.raises(PipelineError, match=r"^three: the rows of a request must .* but 1 runs"):
        log.check()
