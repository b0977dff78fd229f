"""Baselines on planted rows: they find what was planted, and ids of one row each mislead none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pipelines.baselines import score_baselines as baselines
from pipelines.baselines import trees
from pipelines.baselines.score_baselines import score_baselines
from pipelines.features.fit import fit
from pipelines.metrics import auc
from pipelines.storage.dataset import DataSplit
from recsys_attn.schema import Categorical, Numeric, Schema, Sequence, Task
from tests.support import shop

SCHEMA = Schema(
    (
        Categorical("user", dtype="int64"),
        Categorical("item", dtype="int64"),
        Numeric("x"),
        Sequence("past", shares="item", dtype="int64", max_length=5),
    ),
    (Task("click"), Task("never"), Task("seen", mask="is_known")),
)
_ROWS = {"train": 3001, "valid": 701, "test": 997}


def _table(rows: int, seed: int) -> pa.Table:
    """A click needs a number far from 0, or an item of the history."""
    rng = np.random.default_rng(seed)
    item, x = rng.integers(0, 7, rows), rng.normal(size=rows)
    past = [rng.integers(0, 7, size) for size in rng.integers(0, 5, rows)]
    is_past = np.array([one in several for one, several in zip(item, past, strict=True)])
    click = rng.random(rows) < 1 / (1 + np.exp(-4 * (np.abs(x) > 1) - 3 * is_past + 3))
    return pa.table(
        {
            "user": rng.permutation(rows) + seed * 10_000,
            "item": item,
            "x": pa.array(x.astype("float32"), mask=rng.random(rows) < 0.1),
            "past": past,
            "click": click.astype("int8"),
            "never": np.zeros(rows, "int8"),
            "seen": is_past.astype("int8"),
            "is_known": rng.random(rows) < 0.5,
        }
    )


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    for seed, (split, rows) in enumerate(_ROWS.items()):
        table = _table(rows, seed)
        groups = [table.slice(0, 313), table.slice(313)]
        shop.write(folder / split / "part-00000.parquet", groups)
    return folder


@pytest.fixture(scope="module")
def planted():
    return fit(SCHEMA, [_table(_ROWS["train"], 0)])


@pytest.mark.parametrize("library", ["lightgbm", "sklearn"])
def test_baselines_find_what_is_planted(data, planted, library, monkeypatch) -> None:
    pytest.importorskip(library)
    spec = trees.importlib.util.find_spec
    monkeypatch.setattr(
        trees.importlib.util, "find_spec", lambda name: spec(name) if name == library else None
    )
    scored = score_baselines(data, DataSplit(data / "test"), planted, seed=0)
    assert scored.rows == _ROWS["train"]
    assert set(scored.scores) == {"click", "seen"}  # the other task has one label
    click = _table(_ROWS["test"], 2)["click"].to_numpy()
    for name, values in scored.scores["click"].items():
        assert values.shape == (_ROWS["test"],)
        assert auc(click, values) > 0.75, name
        assert 0.9 < values.sum() / click.sum() < 1.1, name


def test_a_sample_is_drawn_by_the_seed(data, planted, monkeypatch) -> None:
    monkeypatch.setattr(baselines, "TRAIN_ROWS", 500)
    of = (data, DataSplit(data / "test"), planted)
    first, again, other = (score_baselines(*of, seed=seed) for seed in (0, 0, 1))
    assert 400 < first.rows < 600
    for name in ("logistic regression", "trees"):
        values = first.scores["click"][name]
        np.testing.assert_array_equal(values, again.scores["click"][name])
        assert (values != other.scores["click"][name]).any()
