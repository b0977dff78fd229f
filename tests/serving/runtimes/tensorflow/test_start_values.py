"""Constants that only the start needs are taken out of the graph, and fed to the start."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from serving.runtimes.tensorflow.saved_model import read_graph
from serving.runtimes.tensorflow.session import TensorFlowSession
from serving.runtimes.tensorflow.start_values import take_start_values

WORDS = [f"word {number}" for number in range(2000)]


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A vocabulary whose ids a signature needs too."""
    module = tf.Module()
    words, ids = tf.constant(WORDS), tf.range(7, 2007, dtype=tf.int64)
    module.table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(words, ids), default_value=-1
    )
    module.weight = tf.Variable(np.arange(5000, dtype="float32"))

    def look_up(word: tf.Tensor) -> dict[str, tf.Tensor]:
        total = tf.cast(tf.reduce_sum(ids), "float32") + module.weight[4999]
        return {"id": module.table.lookup(word), "total": tf.fill(tf.shape(word), total)}

    spec = tf.TensorSpec((None,), tf.string, "word")
    path = tmp_path_factory.mktemp("start") / "1"
    signatures = {"look_up": tf.function(look_up).get_concrete_function(spec)}
    tf.saved_model.save(module, str(path), signatures=signatures)
    return path


def test_large_constants_of_the_start_are_taken(export: Path) -> None:
    meta = read_graph(export)
    before = {node.name: node.op for node in meta.graph_def.node}
    taken = take_start_values(meta)
    ((name, values),) = taken.items()
    assert values.tolist() == [word.encode() for word in WORDS]
    assert meta.graph_def.ByteSize() < read_graph(export).graph_def.ByteSize() - 20_000
    changed = {node.name for node in meta.graph_def.node if node.op != before[node.name]}
    assert changed == {name.removesuffix(":0")}
    assert take_start_values(meta) == {}, "nothing is left"


def test_tables_are_filled_with_taken_constants(export: Path) -> None:
    session = TensorFlowSession(export)
    asked = np.array([b"word 0", b"word 1999", b"?"], object)
    found = session.run("look_up", {"word": asked}, ["id", "total"], None)
    np.testing.assert_array_equal(found["id"], [7, 2006, -1])
    np.testing.assert_array_equal(found["total"], [np.float32(sum(range(7, 2007)) + 4999)] * 3)
    held = session.graph.as_graph_def(add_shapes=False).ByteSize()
    assert held < read_graph(export).graph_def.ByteSize() - 20_000
    session.close()


def test_a_graph_without_a_start_is_unchanged(tmp_path: Path) -> None:
    module = tf.Module()
    function = tf.function(lambda x: {"y": x + tf.constant(np.ones(5000, "float32"))[0]})
    concrete = function.get_concrete_function(tf.TensorSpec((None,), tf.float32, "x"))
    tf.saved_model.save(module, str(tmp_path / "1"), signatures={"add": concrete})
    meta = read_graph(tmp_path / "1")
    before = meta.graph_def.SerializeToString(deterministic=True)
    assert take_start_values(meta) == {}
    assert meta.graph_def.SerializeToString(deterministic=True) == before
