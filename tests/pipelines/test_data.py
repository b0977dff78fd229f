"""Reading a split: its row groups in order, the borders of requests, damaged files named."""

import numpy as np
import pyarrow as pa
import pytest

from pipelines.data import DataSplit, request_starts
from pipelines.errors import PipelineError
from tests.support import shop


@pytest.fixture
def split(tmp_path):
    """Two files of two and three row groups, one of them empty."""
    table = shop.table(41, seed=1)
    parts = [table.slice(start, 11) for start in (0, 11, 22)]
    shop.write(tmp_path / "part-00000.parquet", parts[:2])
    shop.write(tmp_path / "part-00001.parquet", [table.slice(0, 0), parts[2], table.slice(33)])
    (tmp_path / "notes.txt").write_text("not data")
    return DataSplit(tmp_path), table


def test_rows_come_in_the_order_of_the_files(split):
    split, table = split
    assert split.rows == table.num_rows
    assert split.columns == table.column_names
    assert [(g.path.name[-9], g.index, g.first_row) for g in split.row_groups] == [
        ("0", 0, 0),
        ("0", 1, 11),
        ("1", 1, 0),
        ("1", 2, 11),
    ]
    names = ["item", "request"]
    assert pa.concat_tables(split.batches(names)).equals(table.select(names))


def test_a_single_file_is_a_split(split):
    split, table = split
    alone = DataSplit(split.files[0])
    assert alone.rows == 22
    assert pa.concat_tables(alone.batches(["item"])).equals(table.select(["item"]).slice(0, 22))


@pytest.mark.parametrize("how", ["cut", "empty", "text", "overwritten"])
def test_a_damaged_file_is_named(split, how):
    split, _ = split
    shop.damage(split.files[1], how)
    with pytest.raises(PipelineError, match=r"part-00001\.parquet"):
        list(split.batches(split.columns))


def test_a_missing_column_is_named_with_the_nearest(split):
    split, _ = split
    with pytest.raises(PipelineError, match=r"part-00000.*'itme'.* Did you mean 'item'\?"):
        list(split.batches(["price", "itme"]))


def test_a_folder_without_files_and_no_folder(tmp_path):
    with pytest.raises(PipelineError, match="holds no Parquet file"):
        list(DataSplit(tmp_path).files)
    with pytest.raises(PipelineError, match="holds no Parquet file"):
        list(DataSplit(tmp_path / "gone").files)


def by_loop(values):
    """A request begins where the value differs from the one before; null equals nothing."""
    starts = [i for i, v in enumerate(values) if i == 0 or v is None or v != values[i - 1]]
    return [*starts, len(values)]


@pytest.mark.parametrize(
    "values",
    [
        [7, 7, 3, 3, 3, 7],
        ["a", "a", "b", None, None, "b", "b"],
        [None],
        [5],
        [],
        [1.5, 1.5, -0.5],
        [True, True, False],
    ],
    ids=str,
)
def test_request_starts(values):
    column = pa.array(values, None if any(values) else pa.int64())
    column = pa.chunked_array([column[:3], column[3:]])
    found = request_starts(pa.table({"request": column}), "request")
    np.testing.assert_array_equal(found, by_loop(values))


def test_without_a_request_column_each_row_is_a_request():
    np.testing.assert_array_equal(request_starts(pa.table({"x": [5, 5, 5]}), None), [0, 1, 2, 3])
