"""The made data of the training benchmark: one seed, one set of rows, something to learn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.peers import data
from benchmarks.peers.contender import best_auc
from benchmarks.peers.settings import FIELDS, HISTORY, RESERVED, TASKS, Settings

ROWS, TEST_ROWS = 3001, 1009


def made(folder: Path, model: str, seed: int = 0) -> Settings:
    settings = Settings(model, 7919, 61, str(folder / f"{model}-{seed}"))
    data.save(settings, ROWS, TEST_ROWS, seed)
    return settings


@pytest.mark.parametrize("model", ["autoint", "din", "mmoe"])
def test_shapes_and_ids(tmp_path: Path, model: str) -> None:
    settings = made(tmp_path, model)
    for part, rows in (("train", ROWS), ("test", TEST_ROWS)):
        batch = data.load(settings, part)
        columns = 1 if settings.has_history else FIELDS
        assert batch.candidate.shape == (rows, 1, columns)
        assert batch.labels.shape == (rows, 1, len(TASKS) if model == "mmoe" else 1)
        blocks = [batch.candidate]
        if settings.has_history:
            assert batch.context is not None
            assert batch.context.shape == (rows, 1 + HISTORY)
            blocks.append(batch.context)
        for ids in blocks:
            assert ids.dtype == "int32"
            assert RESERVED <= ids.min() < ids.max() < settings.table_rows
        assert set(np.unique(batch.labels)) == {0.0, 1.0}


@pytest.mark.parametrize("model", ["autoint", "din"])
def test_a_seed_fixes_all_rows(tmp_path: Path, model: str) -> None:
    first, other = made(tmp_path, model), made(tmp_path, model, seed=1)
    again = made(tmp_path / "again", model)
    batches = [data.load(settings, "train") for settings in (first, again, other)]
    np.testing.assert_array_equal(batches[0].candidate, batches[1].candidate)
    np.testing.assert_array_equal(batches[0].labels, batches[1].labels)
    assert not np.array_equal(batches[0].candidate, batches[2].candidate)


@pytest.mark.parametrize("model", ["autoint", "din", "mmoe"])
def test_the_best_auc_is_far_from_chance_and_from_certainty(tmp_path: Path, model: str) -> None:
    assert 0.65 < best_auc(made(tmp_path, model)) < 0.9


def test_batches_are_the_rows_in_their_order(tmp_path: Path) -> None:
    rows = data.load(made(tmp_path, "din"), "train")
    batches = list(rows.cut(61))
    assert [len(batch) for batch in batches] == [61] * 49 + [12]
    np.testing.assert_array_equal(np.concatenate([b.candidate for b in batches]), rows.candidate)


def test_ids_follow_a_power_law() -> None:
    counts = np.bincount(data.ranks(997, 200_003, np.random.default_rng(0)), minlength=997)
    expected = np.diff(np.arange(1.0, 999.0) ** (1 - data.EXPONENT))
    np.testing.assert_allclose(counts / counts.sum(), expected / expected.sum(), rtol=0, atol=3e-3)


def test_a_click_depends_on_how_much_of_the_history_is_like_the_item(tmp_path: Path) -> None:
    rows = data.load(made(tmp_path, "din"), "train")
    assert rows.context is not None
    same = np.mean(rows.context[:, 1:] == rows.candidate[:, 0], axis=1) > 0
    clicks = rows.labels[:, 0, 0]
    assert clicks[same].mean() > clicks[~same].mean() + 0.05
