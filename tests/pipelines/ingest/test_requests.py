"""Whole requests, and requests whose rows lie apart."""

import pyarrow as pa
import pytest

from pipelines.errors import PipelineError
from pipelines.ingest.requests import RequestLog, run_starts, whole_requests


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


def test_a_missing_request_column():
    with pytest.raises(PipelineError, match=r"'requests' \(data.request\).*Did you mean 'request'"):
        list(whole_requests(_tables("ab"), "requests", "here"))


def test_a_request_that_comes_back():
    log = RequestLog("request")
    for table in _tables("aabb", "c"):
        log.add(table)
    log.check("here")
    for table in _tables("da"):
        log.add(table)
    with pytest.raises(PipelineError, match="here: the rows of a request must follow each other"):
        log.check("here")
