"""Classify, Regress and MultiInference, through TensorFlow Serving's own stubs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from tensorflow.core.framework import types_pb2
from tensorflow.core.protobuf import meta_graph_pb2

from serving.common.errors import InvalidArgument
from serving.inference.service import replay
from serving.models.model import Model
from tests.serving.stubs import classify, examples, multi_inference, regress, send

ROWS = ({"user": "ann", "price": 1.5}, {"user": "bo"}, {"price": 7.0})
VALUES = [6.0, 2.0, 14.0]  # twice the price, and the letters of the name


def test_classify_returns_classes_per_example(shared_channel: grpc.Channel) -> None:
    response = send(shared_channel, classify(examples(*ROWS)))
    found = [
        [(one.label, one.score) for one in row.classes] for row in response.result.classifications
    ]
    assert found == [[("no", -value), ("yes", value)] for value in VALUES]
    spec = response.model_spec
    assert (spec.name, spec.version.value, spec.signature_name) == ("tiny", 5, "classify")


def test_regress_returns_a_number_per_example(shared_channel: grpc.Channel) -> None:
    response = send(shared_channel, regress(examples(*ROWS)))
    assert [one.value for one in response.result.regressions] == VALUES
    spec = response.model_spec
    assert (spec.name, spec.version.value, spec.signature_name) == ("tiny", 5, "regress")


def test_multi_inference_returns_a_result_per_task(shared_channel: grpc.Channel) -> None:
    request = multi_inference(examples(*ROWS), ("regress", "regress"), ("classify", "classify"))
    regressed, classified = send(shared_channel, request).results
    assert [one.value for one in regressed.regression_result.regressions] == VALUES
    scores = [row.classes[1].score for row in classified.classification_result.classifications]
    np.testing.assert_array_equal(scores, VALUES)
    assert [r.model_spec.signature_name for r in (regressed, classified)] == ["regress", "classify"]


def test_the_context_is_merged_into_each_example(shared_channel: grpc.Channel) -> None:
    sent = examples({"price": 1.0}, {"price": 2.0}, context={"user": "ann"})
    response = send(shared_channel, classify(sent))
    scores = [row.classes[1].score for row in response.result.classifications]
    assert scores == [5.0, 7.0]


def test_the_context_is_computed_once(shared_channel: grpc.Channel) -> None:
    """The sibling `regress_with_context` answers half a point more than `regress`."""
    sent = examples({"price": 1.0}, {"price": 2.0}, context={"user": "ann"})
    response = send(shared_channel, regress(sent))
    assert [one.value for one in response.result.regressions] == [5.5, 7.5]


def test_tasks_share_the_context(shared_channel: grpc.Channel) -> None:
    sent = examples({"price": 1.0}, {"price": 2.0}, context={"user": "ann"})
    request = multi_inference(sent, ("regress", "regress"), ("classify", "classify"))
    regressed, classified = send(shared_channel, request).results
    assert [one.value for one in regressed.regression_result.regressions] == [5.5, 7.5]
    scores = [row.classes[1].score for row in classified.classification_result.classifications]
    assert scores == [5.0, 7.0], "it has no sibling that takes a context"


def test_an_example_overrides_the_context(
    shared_channel: grpc.Channel,
) -> None:
    sent = examples({"price": 1.0, "user": "b"}, {"price": 2.0}, context={"user": "ann"})
    response = send(shared_channel, regress(sent))
    assert [one.value for one in response.result.regressions] == [3.0, 7.0]


class _Views:
    """A runtime whose `regress` and `classify` are names for tensors of `examples`."""

    def __init__(self) -> None:
        self.runs: list[tuple[str, tuple[str, ...]]] = []
        views = {
            "examples": ("predict", {"value": "value:0", "value.scores": "scores:0"}),
            "regress": ("regress", {"outputs": "value:0"}),
            "classify": ("classify", {"scores": "scores:0"}),
        }
        self.definitions = {key: self._definition(*view) for key, view in views.items()}

    @staticmethod
    def _definition(method: str, outputs: dict[str, str]) -> meta_graph_pb2.SignatureDef:
        definition = meta_graph_pb2.SignatureDef(method_name=f"tensorflow/serving/{method}")
        info = definition.inputs["inputs"]
        info.name, info.dtype = "inputs:0", types_pb2.DT_STRING
        info.tensor_shape.dim.add(size=-1)
        for name, tensor in outputs.items():
            output = definition.outputs[name]
            output.name, output.dtype = tensor, types_pb2.DT_FLOAT
            for _ in range(1 + name.endswith("scores")):
                output.tensor_shape.dim.add(size=-1)
        return definition

    def run(
        self, key: str, inputs: Mapping[str, np.ndarray], outputs: Sequence[str], timeout: Any
    ) -> dict[str, np.ndarray]:
        self.runs.append((key, tuple(outputs)))
        rows = np.arange(len(inputs["inputs"]), dtype=np.float32)
        known = {"value:0": rows, "scores:0": np.stack([-rows, rows], 1)}
        definition = self.definitions[key]
        return {name: known[definition.outputs[name].name] for name in outputs}


def test_tasks_of_one_graph_are_computed_once() -> None:
    runtime = _Views()
    request = multi_inference(examples(*ROWS), ("regress", "regress"), ("classify", "classify"))
    model = Model("tiny", 5, Path("nowhere"), runtime)
    regressed, classified = replay(model, request).response.results
    assert [one.value for one in regressed.regression_result.regressions] == [0, 1, 2]
    scores = [row.classes[1].score for row in classified.classification_result.classifications]
    assert scores == [0, 1, 2]
    assert runtime.runs == [("examples", ("value", "value.scores"))]


def test_a_warm_up_request_may_name_another_model() -> None:
    """A warm-up file knows the name it was exported under; whoever serves may choose another."""
    request = multi_inference(
        examples(*ROWS), ("regress", "regress"), ("classify", "classify"), name="exported"
    )
    model = Model("served", 5, Path("nowhere"), _Views())
    assert len(replay(model, request).response.results) == 2
    request.tasks[1].model_spec.name = "served"
    with pytest.raises(InvalidArgument, match="must access the same model name"):
        replay(model, request)
