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


CLASSIFY, REGRESS = ("classify", "classify"), ("regress", "regress")
SHARED = examples({"price": 1.0}, {"price": 2.0}, context={"user": "ann"})
OWN_USER = examples({"price": 1.0, "user": "b"}, {"price": 2.0}, context={"user": "ann"})


def _values(result: Any) -> list[float]:
    """The numbers of a regression, or the scores of `yes` of a classification."""
    if hasattr(result, "regressions"):
        return [one.value for one in result.regressions]
    pairs = [[(one.label, one.score) for one in row.classes] for row in result.classifications]
    assert all(pair == [("no", -pair[1][1]), ("yes", pair[1][1])] for pair in pairs)
    return [pair[1][1] for pair in pairs]


@pytest.mark.parametrize(
    ("sent", "classified", "regressed"),
    [
        (examples(*ROWS), VALUES, VALUES),
        # `regress_with_context`, which adds 0.5, computes the context once.
        (SHARED, [5.0, 7.0], [5.5, 7.5]),
        (OWN_USER, [3.0, 7.0], [3.0, 7.0]),
    ],
    ids=["rows", "context", "overridden"],
)
def test_each_example_has_a_result(
    shared_channel: grpc.Channel, sent: Any, classified: list[float], regressed: list[float]
) -> None:
    for request, expected in ((classify(sent), classified), (regress(sent), regressed)):
        response = send(shared_channel, request)
        assert _values(response.result) == expected
        spec = response.model_spec
        assert (spec.name, spec.version.value) == ("tiny", 5)
        assert spec.signature_name == request.model_spec.signature_name
    first, second = send(shared_channel, multi_inference(sent, REGRESS, CLASSIFY)).results
    assert _values(first.regression_result) == regressed
    assert _values(second.classification_result) == classified
    assert [r.model_spec.signature_name for r in (first, second)] == ["regress", "classify"]


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
    """A request of a warm-up file may name the model as it was called at its export."""
    runtime = _Views()
    request = multi_inference(examples(*ROWS), REGRESS, CLASSIFY, name="exported")
    model = Model("served", 5, Path("nowhere"), runtime)
    regressed, classified = replay(model, request).response.results
    assert _values(regressed.regression_result) == [0, 1, 2]
    scores = [row.classes[1].score for row in classified.classification_result.classifications]
    assert scores == [0, 1, 2]
    assert runtime.runs == [("examples", ("value", "value.scores"))]
    request.tasks[1].model_spec.name = "served"
    with pytest.raises(InvalidArgument, match="must access the same model name"):
        replay(model, request)
