"""A model whose signatures XLA compiles, and what it is asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from serving.runtimes.tensorflow.compiled import CompiledRuntime
from serving.runtimes.tensorflow.session import TensorFlowSession

WORDS = ("a", "b", "c")
EVENTS = 40
AT_ONCE = 1e-9


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A history and candidates: each event counts by how near it is to the candidate."""
    rng = np.random.default_rng(0)
    module = tf.Module()
    module.table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(tf.constant(WORDS), tf.range(1, 4, dtype=tf.int64)), 0
    )
    module.rows = tf.Variable(rng.normal(size=(4, 5)).astype("float32"))
    module.weights = tf.Variable(rng.normal(size=(5, 1)).astype("float32"))

    def click(seen: tf.Tensor, price: tf.Tensor) -> dict[str, tf.Tensor]:
        ids = kept(module.table.lookup(seen))
        present = tf.cast(ids > 0, "float32")
        events = (tf.gather(module.rows, ids) @ module.weights)[..., 0]  # (B, S)
        known = tf.where(tf.math.is_nan(price), 0.0, price)  # (B, T)
        near = tf.sigmoid(events[:, None] * known[..., None])
        total = tf.reduce_sum(near * present[:, None], -1)
        return {"click": total, "twice": 2 * total}

    def kept(ids: tf.Tensor) -> tf.Tensor:
        """Lists of one length, as those of an export of this project."""
        return tf.pad(ids[:, :EVENTS], [[0, 0], [0, tf.maximum(EVENTS - tf.shape(ids)[1], 0)]])

    def rows(seen: tf.Tensor, price: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"click": click(seen, price[:, None])["click"][:, 0]}

    def known(seen: tf.Tensor, price: tf.Tensor) -> dict[str, tf.Tensor]:
        ids = tf.reshape(module.table.lookup(seen), (-1,))
        total = tf.reduce_sum(tf.gather(module.rows, tf.boolean_mask(ids, ids > 0)))
        return {"click": price + total}

    def listed(seen: tf.Tensor, price: tf.Tensor) -> dict[str, tf.Tensor]:
        events = tf.gather(module.rows, module.table.lookup(seen)) @ module.weights  # (B, S, 1)
        return {"click": price + tf.reduce_sum(events, (1, 2))}

    def signature(function: Any, *axes: None) -> Any:
        seen = tf.TensorSpec((None, None), tf.string, "seen")
        price = tf.TensorSpec(axes, tf.float32, "price")
        return tf.function(function).get_concrete_function(seen, price)

    path = tmp_path_factory.mktemp("compiled")
    ranks = {"serving_default": signature(rows, None), "rank": signature(click, None, None)}
    tf.saved_model.save(module, str(path / "1"), signatures=ranks)
    for version, function in (("2", known), ("3", listed)):
        depends = {"serving_default": signature(function, None)}
        tf.saved_model.save(module, str(path / version), signatures=depends)
    alone = tf.function(lambda price: {"click": 2 * price})
    price = tf.TensorSpec((None,), tf.float32, "price")
    no_lists = {"serving_default": alone.get_concrete_function(price)}
    tf.saved_model.save(module, str(path / "4"), signatures=no_lists)
    for version in ("1", "2", "3", "4"):
        (path / version / "manifest.json").write_text("{}")
    return path / "1"


@pytest.fixture
def runtime(export: Path) -> Iterator[CompiledRuntime]:
    runtime = CompiledRuntime(export, TensorFlowSession(export), AT_ONCE)
    yield runtime
    runtime.close()


def inputs_of(rows: int, events: int, *candidates: int) -> dict[str, Any]:
    rng = np.random.default_rng((rows, events, *candidates))
    words = [word.encode() for word in rng.choice([*WORDS, "", "?"], rows * events)]
    return {
        "seen": np.array(words, object).reshape(rows, events),
        "price": rng.random((rows, *candidates)).astype("float32"),
    }


def ask(runtime: CompiledRuntime, inputs: dict[str, Any]) -> np.ndarray:
    key = "rank" if inputs["price"].ndim == 2 else "serving_default"
    return runtime.run(key, inputs, ["click"], 60.0)["click"]
