"""Reading a split: row groups in order, requests, damaged files."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.storage import dataset as data_module
from pipelines.storage.dataset import DataSplit, Reader
from pipelines.storage.request_rows import request_starts
from serving.state.errors import DataError
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
    footers = split.footers
    assert [Path(name).name for name in split.files] == ["part-00000.parquet", "part-00001.parquet"]
    np.testing.assert_array_equal(footers.file, [0, 0, 1, 1])
    np.testing.assert_array_equal(footers.index, [0, 1, 1, 2])
    np.testing.assert_array_equal(footers.first_row, [0, 11, 0, 11])
    names = ["item", "request"]
    assert pa.concat_tables(split.batches(names)).equals(table.select(names))


@pytest.mark.parametrize("read_before", [False, True])
@pytest.mark.parametrize("how", ["cut", "empty", "text", "overwritten"])
def test_a_damaged_file_is_named(split, how, read_before):
    split, _ = split
    columns = split.columns if read_before else ["item"]
    shop.damage(Path(split.folder) / "part-00001.parquet", how)
    with pytest.raises(DataError, match=r"part-00001\.parquet"):
        list(split.batches(columns))


def test_a_missing_column_is_named_with_the_nearest(split):
    split, _ = split
    with pytest.raises(DataError, match=r"part-00000.*'itme'.* Did you mean 'item'\?"):
        list(split.batches(["price", "itme"]))


def test_reader_returns_row_groups_in_any_order(split, monkeypatch):
    split, table = split
    monkeypatch.setattr(data_module, "READ_ROWS", 22)
    with Reader(split.footers, ["item", "user"], encoded=["user", "interests"]) as reader:
        row_groups = list(reader.row_groups([3, 0, 1, 2]))
    assert [portion.rows.tolist() for portion in row_groups] == [
        [table.num_rows - 33],
        [11, 11],
        [11],
    ]
    found = pa.concat_tables([portion.table for portion in row_groups])
    assert pa.types.is_dictionary(found["user"].type)
    parts = [table.slice(33), table.slice(0, 33)]
    expected = pa.concat_tables(parts).select(["item", "user"])
    assert found.cast(expected.schema).equals(expected)


def test_few_files_are_open(tmp_path, monkeypatch):
    monkeypatch.setattr(data_module, "_OPEN_FILES", 2)
    table = shop.table(5, seed=1)
    for number in range(5):
        shop.write(tmp_path / f"{number}.parquet", [table])
    with Reader(DataSplit(tmp_path).footers, ["item"]) as reader:
        for number in (0, 1, 0, 2, 3, 4, 0, 1):
            assert reader.read([number]).equals(table.select(["item"]))
            assert len(reader._open) <= 2
        files = [file for file, _ in reader._open.values()]
    assert all(file.closed for file in files)


def test_a_page_with_another_checksum_is_found(tmp_path):
    """Its values would be wrong and nothing else."""
    table = pa.table({"item": pa.array(range(1009)), "padding": pa.array([7] * 1009)})
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, compression="none", use_dictionary=False, write_page_checksum=True)
    content = bytearray(path.read_bytes())
    content[len(content) // 4] ^= 1
    split = DataSplit(tmp_path)
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"a\.parquet cannot be read: .*It is damaged"):
        list(split.batches(["item"]))


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
