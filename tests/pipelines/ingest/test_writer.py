"""The writer: row groups, one file per split, a full disk."""

import itertools

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.common.errors import PipelineError
from pipelines.ingest import writer as module
from pipelines.ingest.writer import SplitWriter
from tests.pipelines.ingest.files import read_split


def _table(first, last):
    return pa.table({"n": np.arange(first, last), "l": [[k] for k in range(first, last)]})


def test_rows_keep_their_order_in_whole_row_groups(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "ROW_GROUP", 10)
    with SplitWriter(tmp_path) as writer:
        for first in range(0, 49, 7):
            writer.write("train", _table(first, first + 7))
        writer.write("test", _table(0, 3))
        writer.write("valid", _table(0, 0))
    assert writer.rows == {"train": 49, "valid": 0, "test": 3}
    assert writer.columns == {"n": "int64", "l": "list<item: int64>"}
    assert read_split(tmp_path, "train")["n"].to_pylist() == list(range(49))
    metadata = pq.ParquetFile(tmp_path / "train" / "part-00000.parquet").metadata
    groups = [metadata.row_group(k).num_rows for k in range(metadata.num_row_groups)]
    assert groups == [10, 10, 10, 10, 9]
    assert metadata.row_group(0).column(0).compression == "ZSTD"
    assert not (tmp_path / "valid").exists()


def test_row_groups_end_where_requests_end(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "ROW_GROUP", 10)
    requests = np.repeat(np.arange(9), [3, 4, 5, 1, 13, 2, 7, 3, 1])
    table = pa.table({"request": requests, "n": np.arange(len(requests))})
    with SplitWriter(tmp_path, "request") as writer:
        for first, last in ((0, 13), (13, 28), (28, 39)):
            writer.write("train", table.slice(first, last - first))
    file = pq.ParquetFile(tmp_path / "train" / "part-00000.parquet")
    groups = [file.read_row_group(k)["request"].to_pylist() for k in range(file.num_row_groups)]
    assert [len(group) for group in groups] == [7, 6, 13, 9, 4]
    assert all(not set(a) & set(b) for a, b in itertools.pairwise(groups))
    assert read_split(tmp_path, "train")["n"].to_pylist() == list(range(39))


def test_tables_must_be_alike(tmp_path):
    with SplitWriter(tmp_path) as writer:
        writer.write("train", _table(0, 3))
        for other, differs in (
            (pa.table({"n": ["x"], "l": [[1]]}), "expected n: int64, received n: string"),
            (pa.table({"n": [1]}), "expected l: list<item: int64>, received nothing"),
        ):
            with pytest.raises(PipelineError, match=differs):
                writer.write("test", other)


def _fail(writer):
    with writer:
        writer.write("train", _table(0, 3))
        raise KeyError("first")


def test_failure_leaves_no_file(tmp_path):
    with pytest.raises(KeyError, match="first"):
        _fail(SplitWriter(tmp_path))
    assert not (tmp_path / "train").exists()
