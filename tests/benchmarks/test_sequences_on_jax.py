"""Sequence models that learn with several seeds at once on JAX, in a process without TensorFlow."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recsys_attn.schema import RESERVED_IDS, Schema, Sequence

ITEMS, LENGTH, USERS = 7, 6, 40
RUN: dict[str, Any] = {
    "name": "SASRec",
    "split": "last",
    "arrays": "circle",
    "item": "item",
    "model": {"name": "sasrec", "width": 8, "dropout": 0.0},
    "objectives": [{"name": "next_item", "loss": "softmax"}],
    "training": {"epochs": 15, "batch_size": 16, "learning_rate": 0.03, "patience": 15},
    "published": None,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose items follow each other in a circle."""
    made = tmp_path_factory.mktemp("runs")
    start = np.random.default_rng(0).integers(ITEMS, size=(USERS, 1))
    ids = (RESERVED_IDS + (start + np.arange(LENGTH + 1)) % ITEMS).astype("int32")
    rows = {"item": ids[:, :-1], "targets": ids[:, -1], "seen": np.full((USERS, 1), -1, "int32")}
    held_out = {f"{split}/{name}": x for split in ("valid", "test") for name, x in rows.items()}
    np.savez(made / "circle.npz", **{"train/item": ids, **held_out})
    schema = Schema((Sequence("item", size=RESERVED_IDS + ITEMS, max_length=LENGTH),), ())
    (made / "circle.json").write_text(json.dumps({**RUN, "schema": schema.to_dict()}), "utf-8")
    return made


def trained(folder: Path, out: Path, seeds: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.sequences_on_jax.train", str(folder)]
    subprocess.run([*command, "--out", str(out), "--seeds", seeds], check=True)
    found: dict[str, Any] = json.loads((out / "circle.json").read_text("utf-8"))
    return found


@pytest.mark.thorough
def test_seeds_trained_together_learn_as_each_alone(folder: Path, tmp_path: Path) -> None:
    both, alone = (trained(folder, tmp_path / seeds, seeds) for seeds in ("3,4", "4"))
    of_both, of_one = (np.array([e["loss"] for e in run["history"]]) for run in (both, alone))
    np.testing.assert_allclose(of_both[:, 1], of_one[:, 0], rtol=1e-3)
    assert of_both[-1, 0] != of_both[-1, 1]
    assert both["metrics"][1]["ndcg@10"] == pytest.approx(alone["metrics"][0]["ndcg@10"], abs=1e-6)
    for metrics in both["metrics"]:
        assert metrics["ndcg@10"] > 0.99  # one of seven items: 0.5 by chance
