"""The gate: which calls it rejects, and that a rejection makes no other call wait."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from grpc_health.v1 import health_pb2
from tensorflow_serving.apis import model_service_pb2, prediction_service_pb2

from serving.common import rpc_names
from serving.common.errors import shutting_down
from serving.inference.admission import Admission
from serving.protos import scoring_pb2, state_pb2
from serving.rpc.gate import Gate, require_room

PREDICT = "/tensorflow.serving.PredictionService/Predict"
RANK = "/recsys_attn.serving.ScoringService/Rank"


def test_every_call_but_health_checks_is_checked() -> None:
    def check(details: object) -> None:
        if is_draining:
            raise shutting_down()

    gate = Gate([check], lambda trace, error: None)

    def is_rejected(method: str) -> bool:
        details = SimpleNamespace(method=method)
        return gate.intercept_service(lambda _: "own handler", details) != "own handler"

    is_draining = False
    assert not is_rejected(PREDICT)
    is_draining = True
    assert is_rejected(PREDICT)
    assert is_rejected("/no.Service/Method")
    assert not is_rejected("/grpc.health.v1.Health/Check")


def test_only_requests_for_scores_need_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same meaning of low priority as of a request that is read."""
    asked: list[bool] = []
    admission = Admission(1)
    monkeypatch.setattr(admission, "require_room_without_deadline", asked.append)
    for method in (PREDICT, RANK, "/tensorflow.serving.PredictionService/GetModelMetadata",
                   "/tensorflow.serving.ModelService/GetModelStatus"):  # fmt: skip
        for metadata in ((), (("x-priority", "low"), ("x-priority", "high"))):
            require_room(admission, SimpleNamespace(method=method, invocation_metadata=metadata))
    assert asked == [False, True, False, True]


def test_names_are_those_of_the_services() -> None:
    """The ports start before TensorFlow's generated code, and spell the names themselves."""
    names = {value for name, value in vars(rpc_names).items() if name.endswith("_SERVICE")}
    protos = health_pb2, model_service_pb2, prediction_service_pb2, scoring_pb2, state_pb2
    assert names == {
        service.full_name
        for proto in protos
        for service in proto.DESCRIPTOR.services_by_name.values()
    }
