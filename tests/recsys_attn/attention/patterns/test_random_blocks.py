"""BigBird's random blocks: one plan everywhere and for ever, drawn from all there are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

from recsys_attn.attention.patterns import Block, EdgeBlocks, RandomBlocks, random_plan
from tests.support.references import patterns as reference

PLAN = [[3, 4, 1], [1, 2, 4], [1, 3, 5], [3, 4, 0], [0, 3, 6], [2, 3, 5], [5, 0, 4]]


def plan_of(blocks: int, count: int, seed: int) -> np.ndarray:
    return np.asarray(random_plan(np.arange(blocks), blocks, count, seed))


@pytest.mark.thorough
def test_random_plan_is_the_same_on_every_backend() -> None:
    """A model that was saved keeps its plan, so it must never change."""
    backend = "tensorflow" if keras.backend.backend() != "tensorflow" else "jax"
    pytest.importorskip(backend)
    assert plan_of(7, count=3, seed=0).tolist() == PLAN
    assert [reference.random_plan(row, 7, 3, 0) for row in range(7)] == PLAN
    expected = plan_of(300, count=4, seed=-11).tolist()
    script = (
        "import numpy as np; from recsys_attn.attention.patterns import random_plan; print("
        "[np.asarray(random_plan(np.arange(n), n, *a)).tolist() for n, *a in"
        " [(7, 3, 0), (300, 4, -11)]])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "KERAS_BACKEND": backend},
        cwd=Path(__file__).parents[4],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == [PLAN, expected]


def test_a_row_of_the_plan_depends_on_no_other_row() -> None:
    """So requests of different lengths can be in one batch."""
    blocks = np.array([[1], [2], [5], [16]])
    together = np.asarray(random_plan(np.array([[0, 3, 40]]), blocks, 3, seed=7))
    for row, count in enumerate(blocks[:, 0]):
        alone = np.asarray(random_plan(np.array([0, 3, 40]), int(count), 3, seed=7))
        np.testing.assert_array_equal(together[row], alone)
        for drawn in alone.tolist():
            real = [block for block in drawn if block >= 0]
            assert len(set(real)) == len(real) == min(3, count)


def test_random_blocks_are_uniform_without_replacement() -> None:
    plans = np.array([plan_of(16, count=3, seed=seed) for seed in range(200)])
    assert all(len(set(row)) == 3 for row in plans.reshape(-1, 3).tolist())
    assert len({json.dumps(plan) for plan in plans.tolist()}) == 200
    for chosen, rows in (
        (plans, 200 * 16),  # each column
        (plans[:, 5], 200),  # each column of one row
        ((plans - np.arange(16)[:, None]) % 16, 200 * 16),  # each distance
    ):
        share = np.bincount(chosen.ravel(), minlength=16) / rows
        np.testing.assert_allclose(share, 3 / 16, atol=4 * np.sqrt(3 / 16 * 13 / 16 / rows))


def test_random_blocks_cover_all_of_a_long_history() -> None:
    plan = plan_of(256, count=3, seed=0)
    quarters = np.bincount(plan.ravel() // 64, minlength=4) / plan.size
    np.testing.assert_allclose(quarters, 1 / 4, atol=0.07)


def test_keys_outside_the_length_are_in_no_random_block() -> None:
    rows, columns = np.array([-1, 0, 5, 6]), np.array([-3, 2, 6])
    pairs = rows.reshape(1, 1, 4, 1), columns.reshape(1, 1, 1, 3)
    allowed = keras.ops.convert_to_numpy(RandomBlocks(2, 3)(*pairs, 6))[0, 0]
    np.testing.assert_array_equal(allowed, [[False, True, False]] * 4)


def test_big_bird_sees_band_ends_and_random_blocks() -> None:
    """A block row sees at least what the paper lists, and the ends see everything."""
    blocks = (Block(4, 1) | EdgeBlocks(4) | RandomBlocks(4, 3)).matrix(64)[0, ::4, ::4]
    assert blocks[[0, -1]].all()
    assert blocks[:, [0, -1]].all()
    for row in range(1, 15):
        assert blocks[row, row - 1 : row + 2].all()
        assert blocks[row].sum() <= 3 + 2 + 3
