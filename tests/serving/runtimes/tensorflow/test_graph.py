"""Signatures that are names for one computation have one tower, strings and all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import graph_pb2, types_pb2
from tensorflow.core.protobuf import saved_model_pb2

from serving.runtimes import onnx_tower
from serving.runtimes.onnx_runtime import OnnxRuntime
from serving.runtimes.tensorflow.graph import functions_of, needed_by, with_outlets
from serving.runtimes.tensorflow.session import TensorFlowSession

VIEWS = {  # signatures that name outputs of `examples`
    "classify": {"scores": "score", "classes": "classes"},
    "late": {"scores": "score", "classes": "late"},
    "regress": {"outputs": "score"},
}


@pytest.fixture(scope="module")
def views(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A function of strings that gives scores, and two kinds of strings beside them."""
    module = tf.Module()
    module.weights = tf.Variable(np.random.default_rng(0).normal(size=(3, 5)).astype("float32"))

    @tf.function
    def examples(inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        length = tf.cast(tf.strings.length(inputs), tf.float32)
        score = tf.reduce_sum(tf.tanh(tf.stack([length, -length, length], 1) @ module.weights), 1)
        return {
            "score": score,
            "classes": tf.tile([["no", "yes"]], [tf.size(inputs), 1]),
            "late": tf.tile([["late", "too"]], [tf.size(tf.where(score < 1e9)), 1]),
        }

    path = tmp_path_factory.mktemp("views") / "1"
    given = examples.get_concrete_function(tf.TensorSpec((None,), tf.string, "inputs"))
    tf.saved_model.save(module, str(path), signatures={"examples": given})
    file = path / "saved_model.pb"
    saved = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    signatures = saved.meta_graphs[0].signature_def
    for key, outputs in VIEWS.items():
        signatures[key].inputs["inputs"].CopyFrom(signatures["examples"].inputs["inputs"])
        for name, own in outputs.items():
            signatures[key].outputs[name].CopyFrom(signatures["examples"].outputs[own])
    file.write_bytes(saved.SerializeToString())
    return path


def test_one_conversion_serves_every_signature(
    views: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversions: list[Any] = []

    def converted(*arguments: Any) -> bytes:
        conversions.append(arguments)
        return convert(*arguments)

    convert = onnx_tower.converted
    monkeypatch.setattr(onnx_tower, "converted", converted)
    tensorflow = TensorFlowSession(views)
    for _ in range(2):  # the second time as it was kept
        runtime = OnnxRuntime(views, TensorFlowSession(views), cache_folder=tmp_path)
        assert set(runtime.towers) == {"examples", *VIEWS}
        assert len(conversions) == 1
        inputs = {"inputs": np.array([b"a", b"bcd", b""], object)}
        for key, definition in runtime.definitions.items():
            outputs = list(definition.outputs)
            found = runtime.run(key, inputs, outputs, 5.0)
            for name, expected in tensorflow.run(key, inputs, outputs, 5.0).items():
                if expected.dtype == object:
                    np.testing.assert_array_equal(found[name], expected)
                else:
                    np.testing.assert_allclose(found[name], expected, rtol=1e-5, atol=1e-6)
        tower = runtime.towers["classify"]
        gives = {
            own: tower.gives([info.name])
            for own, info in runtime.definitions["examples"].outputs.items()
        }
        assert gives == {"score": True, "classes": True, "late": False}, "late waits for the score"
        runtime.close()
    tensorflow.close()


def test_functions_are_those_of_the_same_inputs(views: Path) -> None:
    session = TensorFlowSession(views)
    (function,) = functions_of(session.definitions)
    session.close()
    assert function.keys == ("classify", "examples", "late", "regress")
    assert len(function.outputs) == len(set(function.outputs)) == 3


def test_an_outlet_needs_its_own_output_alone() -> None:
    flat = graph_pb2.GraphDef()
    for name, op, inputs in (
        ("a", "Placeholder", ()),
        ("b", "Placeholder", ()),
        ("one", "Identity", ("a",)),
        ("all", "IdentityN", ("one", "b", "^waited")),
        ("waited", "NoOp", ()),
        ("sum", "AddV2", ("all:1", "all")),
    ):
        flat.node.add(name=name, op=op, input=inputs)
    types = {"all:0": types_pb2.DT_FLOAT, "sum:0": types_pb2.DT_FLOAT}
    whole = with_outlets(flat, ["all:0", "sum:0"], types)
    assert needed_by(whole, "outlet_0:0") == {"outlet_0", "a"}
    assert needed_by(whole, "outlet_1:0") == {"outlet_1", "sum", "a", "b"}
