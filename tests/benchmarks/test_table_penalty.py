"""The forms of Adam that `benchmarks/table_penalty.py` compares end at the same table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("tensorflow")

from benchmarks import table_penalty
from benchmarks.table_penalty import ByRows, KerasAdam, OnePass, batches

ROWS, LOOKUPS, STEPS = 43, 7, 50


def _reference(start: np.ndarray) -> np.ndarray:
    """Adam on all rows at each step, in float64."""
    table, m, v = start.astype("float64"), 0.0, 0.0
    for step, ids in enumerate(batches(ROWS, LOOKUPS, STEPS), 1):
        gradient = 2 * table_penalty.L2 * table
        np.add.at(gradient, ids.numpy(), 2 * (table[ids.numpy()] - 1))
        m = 0.9 * m + 0.1 * gradient
        v = 0.999 * v + 0.001 * gradient**2
        rate = table_penalty.RATE * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
        table = table - rate * m / (np.sqrt(v) + 1e-7)
    return table


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (KerasAdam, {}),
        (OnePass, {}),
        (ByRows, {"compiled": False, "chunk": 5}),
        (ByRows, {"compiled": True, "chunk": 5}),
    ],
)
def test_all_rows_take_all_steps(make: Any, options: dict[str, Any]) -> None:
    start = np.random.default_rng(1).normal(0, 0.1, (ROWS, 3)).astype("float32")
    optimizer = make(start, **options)
    for ids in batches(ROWS, LOOKUPS, STEPS):
        optimizer.step(ids)
    optimizer.finish()
    np.testing.assert_allclose(optimizer.table.numpy(), _reference(start), rtol=0, atol=1e-6)
