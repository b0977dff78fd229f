"""Ranking models that learn with several seeds at once on JAX, beside the step on TensorFlow."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.boards_on_jax.arrays import of_input, of_label
from pipelines.experiment.training_options import TrainingOptions
from pipelines.feed import Layout
from pipelines.training.optimizer import make_optimizer
from pipelines.training.step import TrainStep
from recsys_attn import models
from recsys_attn.schema import CANDIDATE_MASK, Categorical, Numeric, Schema, Sequence, Task

ROWS, EPOCHS, L2 = 96, 4, 0.01
SCHEMA = Schema(
    (
        Categorical("user", "context", size=6),
        Categorical("item", size=8),
        Numeric("price"),
        Sequence("seen", shares="item", max_length=4),
    ),
    (Task("click"), Task("buy", weight=0.5)),
)
RUN: dict[str, Any] = {
    "board": "small",
    "name": "DIN",
    "seed": 3,
    "schema": SCHEMA.to_dict(),
    "model": {"name": "din", "width": 4, "mlp_units": [8], "dropout": 0.0},
    "monitor": {"click": "auc"},
}
TRAINING: dict[str, Any] = {
    "epochs": EPOCHS,
    "batch_size": ROWS,
    "learning_rate": 0.02,
    "clip_norm": None,
    "learning_rate_decay": 1.0,
    "reduce_on_plateau": 1.0,
    "patience": EPOCHS,
    "embeddings_stddev": None,
}
# A batch is all rows, so their order makes no difference.
SAVES_WEIGHTS = """
import json, sys
import jax, numpy as np
from pathlib import Path
from benchmarks.boards_on_jax.seeds import Seeds
path = Path(sys.argv[1])
jax.config.update("jax_default_matmul_precision", "float32")
run = json.loads(path.read_text("utf-8"))
seeds = Seeds(run, dict(np.load(path.parent / "rows.npz")), [3])
start = [np.asarray(x[0]) for x in seeds.state.trained]
history = seeds.train(1e12, lambda epoch: None)
np.savez(path.parent / "start.npz", *start)
path.with_suffix(".history").write_text(json.dumps([epoch["loss"][0] for epoch in history]))
"""


def arrays_of(candidates: int) -> dict[str, np.ndarray]:
    """Requests whose clicks follow the item, as the writer's files have them.

    Of several candidates every other request lacks the last, which repeats its first.
    """
    rng, found = np.random.default_rng(0), {}
    shape = ROWS, candidates
    there = np.ones(shape, bool)
    there[::2, 1:] = np.arange(1, candidates) < candidates - 1
    for split in ("train", "valid", "test"):
        item = rng.integers(2, 8, shape)
        item = np.where(there, item, item[:, :1])
        inputs = {
            "user": rng.integers(0, 6, ROWS).astype("uint8"),
            "item": item.astype("uint8"),
            "price": rng.normal(size=shape).astype("float32"),
            "seen": rng.integers(0, 8, (ROWS, 4)).astype("uint8"),
            CANDIDATE_MASK: there,
        }
        click = (item % 2 == 0) ^ (rng.random(shape) < 0.1)
        labels = {"click": click, "buy": np.where(click, rng.random(shape) < 0.5, np.nan)}
        found |= {of_input(split, name): x for name, x in inputs.items()}
        for name, x in labels.items():
            found[of_label(split, name)] = np.where(there, x, np.nan).astype("float32")
    return found


@pytest.fixture(scope="module")
def arrays() -> dict[str, np.ndarray]:
    return arrays_of(1)


def write(folder: Path, arrays: dict[str, np.ndarray], **training: Any) -> Path:
    np.savez(folder / "rows.npz", **arrays)
    run = {**RUN, "training": {**TRAINING, **training}}
    (folder / "din.json").write_text(json.dumps(run), "utf-8")
    return folder / "din.json"


def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("optimizer", "penalty", "candidates"),
    [
        ("adam", 0.0, 1),
        ("adam", L2, 1),
        ("lazy_adam", 0.0, 1),
        ("lazy_adam", L2, 1),
        ("lazy_adam", L2, 3),
    ],
)
def test_losses_are_those_of_the_step_on_tensorflow(
    optimizer: str,
    penalty: float,
    candidates: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    environment(monkeypatch)
    arrays = arrays_of(candidates)
    path = write(tmp_path, arrays, optimizer=optimizer, embeddings_l2=penalty)
    subprocess.run([sys.executable, "-c", SAVES_WEIGHTS, str(path)], check=True)
    on_jax = json.loads(path.with_suffix(".history").read_text())
    given = {**TRAINING, "optimizer": optimizer, "embeddings_l2": penalty}
    options = TrainingOptions.model_validate(given)
    arguments = {key: value for key, value in RUN["model"].items() if key != "name"}
    model = models.din(SCHEMA, **arguments)
    model = models.with_tables(model, l2=penalty if optimizer == "adam" else None)
    for variable, value in zip(model.trainable_variables, start(tmp_path), strict=True):
        variable.assign(value)
    step = TrainStep(model, make_optimizer(options, model.trainable_variables), Layout.of(SCHEMA))
    losses = [step([blocks(arrays)]).loss for _ in range(EPOCHS)]
    np.testing.assert_allclose(on_jax, losses, rtol=1e-4)
    assert losses[-1] < losses[0] - 0.01


def start(folder: Path) -> list[np.ndarray]:
    saved = np.load(folder / "start.npz")
    return [saved[name] for name in saved.files]


def blocks(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """All train rows as one batch of the feed."""
    layout = Layout.of(SCHEMA)
    there = arrays[of_input("train", CANDIDATE_MASK)]
    context = layout.blocks_of("context")
    found: dict[str, np.ndarray] = {CANDIDATE_MASK: there}
    for name, block in layout.empty(there.size).items():
        found[name] = block[:ROWS] if name in context else block.reshape(*there.shape, -1)
    for name, (block, place) in layout.places.items():
        found[block][..., place] = arrays[of_input("train", name)]
    for place, task in enumerate(layout.tasks):
        found["labels"][..., place] = arrays[of_label("train", task)]
    return found


@pytest.mark.thorough
def test_seeds_trained_together_learn_as_each_alone(
    arrays: dict[str, np.ndarray], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment(monkeypatch)
    given = {"optimizer": "adam", "embeddings_l2": 0.0, "batch_size": 40, "epochs": 20}
    found = []
    for first, count in ((3, 2), (4, 1)):
        path = write(tmp_path, arrays, **given, patience=20)
        run = json.loads(path.read_text("utf-8")) | {"seed": first}
        path.write_text(json.dumps(run), "utf-8")
        out = tmp_path / f"{first}"
        command = [sys.executable, "-m", "benchmarks.boards_on_jax.train", str(tmp_path)]
        subprocess.run([*command, "--out", str(out), "--seeds", str(count)], check=True)
        found.append(json.loads((out / "din.json").read_text("utf-8")))
    both, alone = found
    losses, of_one = (np.array([e["loss"] for e in run["history"]]) for run in found)
    np.testing.assert_allclose(losses[:5, 1], of_one[:5, 0], rtol=1e-3)
    assert losses[-1, 0] != losses[-1, 1]
    for each in (*both["auc"], *alone["auc"]):
        assert each["click"] > 0.8  # clicks follow the item, nine of ten times
