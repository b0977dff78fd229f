"""Whole requests, and scattered requests."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.common.errors import PipelineError
from pipelines.storage.dataset import DataSplit
from pipelines.storage.request_rows import RequestLog, check_requests


def _tables(*columns):
    return iter([pa.table({"request": pa.array(values, pa.string())}) for values in columns])


def test_scattered_request_is_an_error():
    log = RequestLog("request")
    for file, table in zip(("one", "two"), _tables("aabb", "c"), strict=True):
        log.add(table, file)
    log.check()
    for file, table in zip(("two", "three"), _tables("e", "da"), strict=True):
        log.add(table, file)
    message = r"^three: the rows of a request must .* but 1 runs .* in one too: .* copy\?.* merge"
    with pytest.raises(PipelineError, match=message):
        log.check()


@pytest.mark.parametrize("rows", ["aab bbc", "aab bba", "aabcb"])
def test_scattered_requests_of_a_split_are_an_error(tmp_path, rows):
    for number, values in enumerate(rows.split()):
        table = pa.table({"request": list(values)})
        pq.write_table(table, tmp_path / f"{number}.parquet", row_group_size=2)
    if rows == "aab bbc":  # a request goes on in the next file
        check_requests(DataSplit(tmp_path), "request")
        return
    file = rows.count(" ")
    advice = r"in .*0\.parquet too" if file else "sort all"
    with pytest.raises(PipelineError, match=rf"{file}\.parquet: the rows .* 1 runs .* {advice}"):
        check_requests(DataSplit(tmp_path), "request")
