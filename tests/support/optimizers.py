"""Tables, and gradients of them as the running backend would give them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn.models import RankingModel, mlp
from recsys_attn.optimizers import LazyAdagrad, LazyAdam, RowOptimizer, RowWiseAdagrad
from recsys_attn.schema import Categorical, Schema, Task
from recsys_attn.schema import Sequence as History
from tests.support.references import optimizers as reference

Array = np.ndarray
ROWS, WIDTH, LOOKUPS, STEPS = 13, 5, 17, 7
UNTOUCHED, CANCELLED = 11, 3  # rows: never looked up; looked up with gradients that add up to zero
SPARSE = keras.backend.backend() == "tensorflow"
needs_lookups = pytest.mark.skipif(not SPARSE, reason="the gradient does not tell lookups")

OPTIMIZERS: dict[str, tuple[type[RowOptimizer], Callable[..., Array]]] = {
    "LazyAdam": (LazyAdam, reference.adam),
    "LazyAdagrad": (LazyAdagrad, reference.adagrad),
    "RowWiseAdagrad": (RowWiseAdagrad, reference.row_wise),
}


def batches(seed: int = 0, steps: int = STEPS) -> list[reference.Batch]:
    """Ids with duplicates, and gradients of very different sizes."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(steps):
        ids = rng.choice([i for i in range(ROWS) if i != UNTOUCHED], LOOKUPS).astype("int32")
        gradients = rng.normal(size=(LOOKUPS, WIDTH)) * 10.0 ** rng.integers(-3, 2, (LOOKUPS, 1))
        gradients[ids == CANCELLED] = 0
        ids[:2] = CANCELLED
        gradients[1] = -gradients[0]
        found.append((ids, gradients.astype("float32")))
    return found


def table(name: str = "table_5", shape: tuple[int, ...] = (ROWS, WIDTH)) -> keras.Variable:
    values = np.random.default_rng(1).normal(size=shape).astype("float32")
    return keras.Variable(values, name=name)


def gradient(ids: Array, values: Array, *, sparse: bool = SPARSE) -> Any:
    """A gradient of the table by lookup, or as large as the table."""
    if sparse:
        import tensorflow as tf

        return tf.IndexedSlices(tf.constant(values), tf.constant(ids), tf.constant([ROWS, WIDTH]))
    dense = np.zeros((ROWS, *values.shape[1:]), "float32")
    np.add.at(dense, ids, values)
    return keras.ops.convert_to_tensor(dense)


def train(
    optimizer: keras.optimizers.Optimizer,
    variable: keras.Variable,
    steps: Sequence[reference.Batch],
    *,
    sparse: bool = SPARSE,
) -> Array:
    """The variable after these steps."""
    for ids, values in steps:
        optimizer.apply([gradient(ids, values, sparse=sparse)], [variable])
    return numpy(variable)


def numpy(x: Any) -> Array:
    return keras.ops.convert_to_numpy(x)


def model() -> RankingModel:
    """A small one; items are looked up by candidates and by histories."""
    random.seed(2)  # Keras draws the seed of each layer from it
    features = (
        Categorical("item", size=23),
        Categorical("user", "context", size=11),
        History("seen", shares="item"),
    )
    return mlp(Schema(features, (Task("click"),)), width=WIDTH, units=(7,))


def data() -> tuple[dict[str, Array], dict[str, Array]]:
    """Inputs and labels of `model`."""
    rng = np.random.default_rng(3)
    inputs = {
        "item": rng.integers(0, 20, (19, 3)),
        "user": rng.integers(0, 11, 19),
        "seen": rng.integers(0, 20, (19, 5)),
    }
    return inputs, {"click": rng.random((19, 3)).astype("float32")}


def fit(trained: RankingModel, epochs: int = 2) -> list[Array]:
    """Its weights after training on `data`, the table first."""
    trained.fit(*data(), batch_size=4, epochs=epochs, shuffle=False, verbose=0)
    return [*trained.embedding.get_weights(), *trained.tower.get_weights()]


def whole_tables(graph: Any) -> list[str]:
    """The operations of a graph of TensorFlow that give something as large as the model's table."""
    rows = 23 + 11
    return [
        f"{operation.type} {operation.name}"
        for operation in graph.get_operations()
        if any(output.shape.rank and output.shape[0] == rows for output in operation.outputs)
    ]
