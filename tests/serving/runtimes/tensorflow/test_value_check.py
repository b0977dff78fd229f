"""A graph whose variables or tables have no values is rejected, without computing signatures."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from serving.common.errors import FailedPrecondition
from serving.runtimes.tensorflow.session import TensorFlowSession

v1 = tf.compat.v1


def test_variables_without_values_are_named(twofold: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(twofold, tmp_path / "1"))
    shutil.rmtree(folder / "variables")
    with pytest.raises(FailedPrecondition, match=r"1 of the 1 variables .* no value: Variable\."):
        TensorFlowSession(folder)


def _save_v1(path: Path, start: bool) -> Path:
    """`scale` multiplies by a variable, `find` looks up a table; `start` fills both."""
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, (None,), "x")
        weight = v1.get_variable("weight", initializer=3.0, use_resource=False)
        word = v1.placeholder(tf.string, (None,), "word")
        table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a"], [7]), -1)
        found = table.lookup(word)
        define = v1.saved_model.signature_def_utils.predict_signature_def
        session.run(v1.global_variables_initializer())
        builder = v1.saved_model.builder.SavedModelBuilder(str(path))
        builder.add_meta_graph_and_variables(
            session,
            ["serve"],
            {
                "scale": define({"x": x}, {"y": x * weight}),
                "find": define({"word": word}, {"id": found}),
            },
            main_op=v1.tables_initializer() if start else None,
        )
        builder.save()
    return path


@pytest.mark.thorough
def test_graphs_of_tensorflow_1_are_checked(tmp_path: Path) -> None:
    session = TensorFlowSession(_save_v1(tmp_path / "1", start=True))
    found = session.run("find", {"word": np.array([b"a", b"b"], object)}, ["id"], None)
    np.testing.assert_array_equal(found["id"], [7, -1])
    session.close()
    with pytest.raises(FailedPrecondition, match="Table not initialized"):
        TensorFlowSession(_save_v1(tmp_path / "2", start=False))
    shutil.rmtree(tmp_path / "1/variables")
    with pytest.raises(FailedPrecondition, match="no value: weight"):
        TensorFlowSession(tmp_path / "1")


def test_signatures_with_side_effects_are_not_computed(tmp_path: Path) -> None:
    """Made-up inputs would change the counter, and read a file without a name."""
    module = tf.Module()
    module.calls = tf.Variable(0)
    count = tf.function(lambda by: {"calls": module.calls.assign_add(by[0])})
    read = tf.function(lambda name: {"content": tf.io.read_file(name)})
    signatures = {
        "count": count.get_concrete_function(tf.TensorSpec((None,), tf.int32, "by")),
        "read": read.get_concrete_function(tf.TensorSpec((), tf.string, "name")),
    }
    tf.saved_model.save(module, str(tmp_path / "1"), signatures=signatures)
    session = TensorFlowSession(tmp_path / "1")
    found = session.run("count", {"by": np.array([5], np.int32)}, ["calls"], None)
    assert found["calls"] == 5
    session.close()
