"""Reads of tables by head, and their gradients."""

from __future__ import annotations

import numpy as np
import pytest

from recsys_attn.backend.head_tables import read
from tests.support.arrays import assert_close
from tests.support.gradients import gradient

HEADS, ENTRIES = 3, 5
RNG = np.random.default_rng(2)
TABLE = RNG.normal(size=(HEADS, ENTRIES)).astype("float32")


@pytest.mark.parametrize("rows", [0, 1, 4])
@pytest.mark.parametrize("index_heads", [1, HEADS])
def test_each_head_reads_its_own_table(rows: int, index_heads: int) -> None:
    index = RNG.integers(0, ENTRIES, (rows, index_heads, 6, 7)).astype("int32")
    every = np.broadcast_to(index, (rows, HEADS, 6, 7))
    assert_close(read(TABLE, index), TABLE[np.arange(HEADS)[:, None, None], every])

    factors = RNG.normal(size=every.shape).astype("float32")
    found = gradient(lambda x: factors * read(x, index), TABLE)
    expected = [
        [factors[:, head][every[:, head] == entry].sum() for entry in range(ENTRIES)]
        for head in range(HEADS)
    ]
    assert_close(found, expected, atol=1e-5)


@pytest.mark.parametrize("rows", [1, 4])
def test_entries_may_be_vectors(rows: int) -> None:
    index = RNG.integers(0, ENTRIES, (rows, 1, 6)).astype("int32")
    vectors = RNG.normal(size=(HEADS, ENTRIES, 2)).astype("float32")
    assert_close(read(vectors, index), vectors[np.arange(HEADS)[:, None], index])
