"""Splits whose rows are known again in a batch, and what a feed gave of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa

from pipelines.feed import Batch
from pipelines.storage.dataset import DataSplit
from recsys_attn.schema import CANDIDATE_MASK
from tests.support import shop

Rows = tuple[int, ...]


def numbered(requests: int, seed: int = 8, longest: int = 5) -> pa.Table:
    """A shop's rows, whose rating is the row's number."""
    table = shop.table(requests, seed=seed, longest=longest)
    ratings = pa.array(np.arange(table.num_rows), pa.float32())
    return table.set_column(table.column_names.index("rating"), "rating", ratings)


def write_split(folder: Path, table: pa.Table, sizes: Iterable[int], files: int = 2) -> DataSplit:
    """Row groups of so many requests each, the rest in the last one, over some files."""
    starts = [*np.flatnonzero(np.diff(table["request"].to_numpy(), prepend=-1)), table.num_rows]
    ends = [size for size in itertools.accumulate(sizes) if size < len(starts) - 1]
    cuts = [0, *(starts[end] for end in ends), table.num_rows]
    groups = [table.slice(a, b - a) for a, b in itertools.pairwise(cuts)]
    for number, part in enumerate(np.array_split(np.arange(len(groups)), files)):
        if len(part):
            shop.write(folder / f"part-{number:05d}.parquet", [groups[i] for i in part])
    return DataSplit(folder)


def rows_of(batch: Batch) -> list[Rows]:
    """The row numbers of a batch, request by request; none for a request of padding."""
    ratings, mask = batch.inputs["rating"], batch.inputs[CANDIDATE_MASK]
    return [tuple(row[inside].astype(int)) for row, inside in zip(ratings, mask, strict=True)]


def order_of(batches: Iterable[Batch]) -> list[Rows]:
    """The row numbers of every request, in the order of the stream."""
    return [rows for batch in batches for rows in rows_of(batch) if rows]


def requests_of(table: pa.Table, request: str | None = "request") -> list[Rows]:
    """The row numbers of every request, in the order of the table."""
    if request is None:
        return [(row,) for row in range(table.num_rows)]
    values = table[request].to_numpy()
    return [tuple(np.flatnonzero(values == value)) for value in dict.fromkeys(values)]


def expect_equal(one: Batch, other: Batch) -> None:
    """The same blocks to the last bit, and the same position."""
    assert one.blocks.keys() == other.blocks.keys()
    for name, block in one.blocks.items():
        np.testing.assert_array_equal(block, other.blocks[name], err_msg=name)
        assert block.dtype == other.blocks[name].dtype
    assert one.position == other.position
