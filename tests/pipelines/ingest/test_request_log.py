"""Whole requests, and scattered requests."""

import pyarrow as pa
import pytest

from pipelines.common.errors import PipelineError
from pipelines.ingest.request_log import RequestLog, whole_requests
from pipelines.storage.request_rows import run_starts


def _tables(*columns):
    return iter([pa.table({"request": pa.array(values, pa.string())}) for values in columns])


def test_runs_start_where_the_value_changes():
    column = pa.chunked_array([pa.array(["a", "a", "b"]), pa.array(["b", None, None, "a"])])
    # Rows without a request are each their own.
    assert run_starts(column).tolist() == [0, 2, 4, 5, 6]
    assert run_starts(column.slice(0, 0)).tolist() == []


def test_tables_end_where_requests_end():
    tables = _tables("aab", "bb", "", "b", "cd", "de")
    whole = [t["request"].to_pylist() for t in whole_requests(tables, "request", "here")]
    assert whole == [["a", "a"], ["b"] * 4 + ["c"], ["d", "d"], ["e"]]


def test_scattered_request_is_an_error():
    log = RequestLog("request")
    for file, table in zip(("one", "two"), _tables("aabb", "c"), strict=True):
        log.add(table, file)
    log.check()
    for file, table in zip(("two", "three"), _tables("e", "da"), strict=True):
        log.add(table, file)
    with pytest.raises(PipelineError, match=r"^three: the rows of a request must .* but 1 runs"):
        log.check()
