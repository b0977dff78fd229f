"""Steps of a sequence model on one device and on two, in a process that has two.

python -m tests.support.sequence_steps FILE.npz

TensorFlow makes logical devices only before it starts, so this is a process of its own.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from pipelines.feed import Arrays, Layout
from pipelines.pretraining.sequence_step import SequenceStep, trained_variables
from recsys_attn.models import SequenceModel, get_sequence_model
from recsys_attn.objectives import OBJECTIVES, Objective
from recsys_attn.schema import CANDIDATE_MASK, Schema
from recsys_attn.schema import Sequence as Events
from tests.support.backends import environment

ROOT = Path(__file__).parents[2]
SIZE, LENGTH, STEPS = 19, 7, 3
SIZES = {"item": SIZE, "genre": 5}
BATCHES = (11, 6)  # histories of each device


def in_a_process(path: Path) -> dict[str, np.ndarray]:
    """By device and place among all weights the values after training, and each step's result."""
    command = [sys.executable, "-m", __name__, str(path)]
    subprocess.run(
        command, check=True, cwd=ROOT, env=environment("tensorflow"), capture_output=True
    )
    with np.load(path) as found:
        return dict(found)


def layout() -> Layout:
    return Layout.of(Schema(tuple(Events(n, size=SIZES[n], max_length=LENGTH) for n in SIZES), ()))


def blocks(rows: int, seed: int) -> Arrays:
    """A batch of histories, each from none to all of the events long."""
    rng = np.random.default_rng(seed)
    present = np.arange(LENGTH) < rng.integers(0, LENGTH + 1, rows)[:, None]
    ids = [np.where(present, rng.integers(1, size, present.shape), 0) for size in SIZES.values()]
    whole = np.concatenate(ids, axis=1).astype("int32")
    return {"context_ids": whole, CANDIDATE_MASK: np.ones((rows, 1), bool)}


def parts() -> tuple[SequenceModel, list[Objective]]:
    """A model without dropout, and objectives without draws."""
    keras.utils.set_random_seed(5)
    schema = Schema((Events("item", size=SIZE, max_length=LENGTH),), ())
    model = get_sequence_model("sasrec")(schema, width=6, dropout=0.0, num_layers=1)
    objectives = [
        OBJECTIVES["next_item"](),
        OBJECTIVES["attributes"](column="genre", weight=0.3),
    ]
    for objective in objectives:
        objective.prepare(model, SIZES)
    return model, objectives


def train(strategy: Any, batches: Sequence[Sequence[Arrays]]) -> dict[str, np.ndarray]:
    """The results of steps on these batches of each device, and the weights."""
    with strategy.scope():
        model, objectives = parts()
        variables = trained_variables(model, objectives)
        optimizer = keras.optimizers.SGD(0.5)
        optimizer.build(variables)
        step = SequenceStep(model, objectives, optimizer, layout(), np.ones(SIZE))
    results = [tuple(step(each)) for each in batches]
    weights = {str(index): variable.numpy() for index, variable in enumerate(variables)}
    return {"results": np.array(results, "float64"), **weights}


def main(path: str) -> None:
    (processor,) = tf.config.list_physical_devices("CPU")
    two = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(processor, two)
    pairs = [[blocks(rows, 10 * n + rows) for rows in BATCHES] for n in range(STEPS)]
    together = [[{name: np.concatenate([x[name] for x in p]) for name in p[0]}] for p in pairs]
    one = train(tf.distribute.OneDeviceStrategy("CPU:0"), together)
    both = train(tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]), pairs)
    found = {f"{k}/{n}": x for k, each in (("one", one), ("two", both)) for n, x in each.items()}
    np.savez(path, **found)


if __name__ == "__main__":
    main(sys.argv[1])
