"""A model whose signature `rank` XLA compiles, and requests for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from serving.runtimes.tensorflow.compiled import CompiledRuntime
from serving.runtimes.tensorflow.padding import rank_padding
from serving.runtimes.tensorflow.session import TensorFlowSession

WORDS = ("a", "b", "c")
EVENTS = 40
AT_ONCE = 1e-9


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of models, by the shape of their tower's inputs: `fixed`, `values`, `lists`."""
    rng = np.random.default_rng(0)
    module = tf.Module()
    module.table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(tf.constant(WORDS), tf.range(1, 4, dtype=tf.int64)), 0
    )
    module.rows = tf.Variable(rng.normal(size=(4, 5)).astype("float32"))
    module.weights = tf.Variable(rng.normal(size=(5, 1)).astype("float32"))

    def fixed(seen: tf.Tensor, price: tf.Tensor) -> dict[str, tf.Tensor]:
        """Lists of one length, as in exports of this project."""
        ids = module.table.lookup(seen)[:, :EVENTS]
        ids = tf.pad(ids, [[0, 0], [0, EVENTS - tf.shape(ids)[1]]])
        events = (tf.gather(module.rows, ids) @ module.weights)[..., 0]  # (B, S)
        known = tf.where(tf.math.is_nan(price), 0.0, price)  # (B, T)
        near = tf.sigmoid(events[:, None] * known[..., None])
        total = tf.reduce_sum(near * tf.cast(ids > 0, "float32")[:, None], -1)
        return {"click": total, "twice": 2 * total}

    def values(seen: tf.Tensor, price: tf.Tensor) -> dict[str, tf.Tensor]:
        ids = tf.reshape(module.table.lookup(seen), (-1,))
        return {"click": price + tf.reduce_sum(tf.gather(module.rows, ids[ids > 0]))}

    def lists(seen: tf.Tensor, price: tf.Tensor) -> dict[str, tf.Tensor]:
        events = tf.gather(module.rows, module.table.lookup(seen)) @ module.weights  # (B, S, 1)
        return {"click": price + tf.reduce_sum(events, (1, 2))[:, None]}

    def signature(function: Any, *axes: None) -> Any:
        seen = tf.TensorSpec((None, None), tf.string, "seen")
        return tf.function(function).get_concrete_function(
            seen, tf.TensorSpec(axes, tf.float32, "price")
        )

    def rows(seen: tf.Tensor, price: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"click": fixed(seen, price[:, None])["click"][:, 0]}

    path = tmp_path_factory.mktemp("compiled")
    for function in (fixed, values, lists):
        signatures = {"serving_default": signature(rows, None)}
        signatures["rank"] = signature(function, None, None)
        tf.saved_model.save(module, str(path / function.__name__), signatures=signatures)
        (path / function.__name__ / "manifest.json").write_text("{}")
    return path


def compiled_runtime(path: Path, compile_after: float = AT_ONCE) -> CompiledRuntime:
    session = TensorFlowSession(path)
    padding = rank_padding(session.definitions)
    assert padding is not None
    return CompiledRuntime(path, session, padding, compile_after)


@pytest.fixture
def runtime(exports: Path) -> Iterator[CompiledRuntime]:
    runtime = compiled_runtime(exports / "fixed")
    yield runtime
    runtime.close()


@pytest.fixture(scope="module")
def tensorflow(exports: Path) -> Iterator[TensorFlowSession]:
    """The same model without XLA."""
    session = TensorFlowSession(exports / "fixed")
    yield session
    session.close()


def inputs_of(rows: int, events: int, candidates: int) -> dict[str, Any]:
    rng = np.random.default_rng((rows, events, candidates))
    words = [word.encode() for word in rng.choice([*WORDS, "", "?"], rows * events)]
    return {
        "seen": np.array(words, object).reshape(rows, events),
        "price": rng.random((rows, candidates)).astype("float32"),
    }


def ask(runtime: CompiledRuntime | TensorFlowSession, inputs: dict[str, Any]) -> np.ndarray:
    return runtime.run("rank", inputs, ["click"], 60.0)["click"]
