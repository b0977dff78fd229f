"""Optimizers on one device and on two replicas, in a process that has two.

python -m tests.support.replicas FILE.npz NAME

TensorFlow makes logical devices only before it starts, so this is a process of its own.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from pipelines.training.optimizer import with_whole_gradients
from recsys_attn.optimizers import LazyAdam, RowWiseAdagrad, Split
from tests.support.backends import environment
from tests.support.optimizers import data, model, whole_tables

ROOT = Path(__file__).parents[2]
STEPS, BATCH = 5, 6
DEVICES = ("one", "two")


def in_a_process(path: Path, name: str) -> dict[str, np.ndarray]:
    """By device and place among all weights and slots, the values after training."""
    command = [sys.executable, "-m", __name__, str(path), name]
    subprocess.run(
        command, check=True, cwd=ROOT, env=environment("tensorflow"), capture_output=True
    )
    with np.load(path) as found:
        return dict(found)


def split() -> Split:
    rows = LazyAdam(0.1, weight_decay=0.1, l2=0.5, clipvalue=0.05)
    return Split(rows, keras.optimizers.Adam(0.01), global_clipnorm=0.5)


def adam() -> keras.optimizers.Optimizer:
    """Adam of the training pipeline, which updates whole tables."""
    optimizer: keras.optimizers.Optimizer = with_whole_gradients(keras.optimizers.Adam)(0.01)
    optimizer.largest_norm = 0.5
    return optimizer


MAKERS: dict[str, Callable[[], keras.optimizers.Optimizer]] = {
    "LazyAdam": lambda: LazyAdam(0.1, clipnorm=0.2),
    "RowWiseAdagrad": lambda: RowWiseAdagrad(0.1, l2=0.1, global_clipnorm=0.5),
    "Split": split,
    "Adam": adam,
}
BY_ROW = [name for name in MAKERS if name != "Adam"]


def train(strategy: Any, make: Callable[[], Any]) -> dict[str, np.ndarray]:
    """Each step has the same rows, whatever the number of replicas; the loss is their sum."""
    with strategy.scope():
        trained, optimizer = model(), make()
        variables = trained.trainable_weights
        optimizer.build(variables)

    @tf.function
    def step(inputs: Any, labels: Any) -> None:
        def replica(inputs: Any, labels: Any) -> None:
            with tf.GradientTape() as tape:
                logits = trained(inputs, training=True)["click"]
                loss = tf.reduce_sum((logits - 5 * labels["click"]) ** 2) / BATCH
            optimizer.apply(tape.gradient(loss, [v.value for v in variables]), variables)

        strategy.run(replica, args=(inputs, labels))

    def shared_out(x: np.ndarray) -> Any:
        count = strategy.num_replicas_in_sync
        return strategy.experimental_distribute_values_from_function(
            lambda context: tf.constant(x[context.replica_id_in_sync_group :: count])
        )

    rng = np.random.default_rng(0)
    for _ in range(STEPS):
        rows = rng.permutation(19)[:BATCH]
        batch = [{name: shared_out(x[rows]) for name, x in part.items()} for part in data()]
        step(*batch)
    whole = whole_tables(step.get_concrete_function(*batch).graph)
    weights = [v.numpy() for v in (*trained.weights, *optimizer.variables)]
    return {"whole": np.array(len(whole)), **{str(i): w for i, w in enumerate(weights)}}


def main(path: str, name: str) -> None:
    (processor,) = tf.config.list_physical_devices("CPU")
    two = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(processor, two)
    # A second mirrored strategy in one process mixes up its collectives with those of the first.
    strategies = (
        tf.distribute.OneDeviceStrategy("CPU:0"),
        tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]),
    )
    found = {
        f"{device}/{key}": array
        for device, strategy in zip(DEVICES, strategies, strict=True)
        for key, array in train(strategy, MAKERS[name]).items()
    }
    np.savez(path, **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
