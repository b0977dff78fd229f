"""A valid request for each method: what the mutations begin with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2
from tensorflow_serving.apis import model_management_pb2

from serving.protos import scoring_pb2
from tests.serving import stubs
from tests.serving.rank_messages import make_rank_request

MODEL = "tiny"
SPARE = "spare"  # a second model, which reloads may break
VERSION = 5
_PREDICTION = "/tensorflow.serving.PredictionService/"
_MODELS = "/tensorflow.serving.ModelService/"
_HEALTH = "/grpc.health.v1.Health/"
RELOAD = f"{_MODELS}HandleReloadConfigRequest"
WATCH = f"{_HEALTH}Watch"
REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
STREAMS = (WATCH, REFLECTION)
CONTEXT: dict[str, Any] = {"user": "ann", "age": 31, "history": ["i1", "i2"]}
CANDIDATES: dict[str, list[Any]] = {"price": [1.5, None, 2.5], "tags": [["t"], [], ["a", "b"]]}
ROWS: tuple[dict[str, Any], ...] = ({"user": "ann", "price": 1.5}, {"user": "", "price": 2.5})


class Valid(NamedTuple):
    """A method, and a message that it takes."""

    method: str
    message: Any


def valid(rng: np.random.Generator, base_path: str) -> Valid:
    """A valid request of a random method.

    Args:
        rng: Chooses.
        base_path: Folder of the models, for reloads.
    """
    makers: list[Callable[[np.random.Generator], Valid]] = [
        _predict, _predict, _predict, _rank, _rank, _rank, _classify, _regress, _multi_inference,
        _metadata, _status, _health, _watch, _reflection, lambda _: reload(base_path),
    ]  # fmt: skip
    return makers[rng.integers(len(makers))](rng)


def reload(base_path: str) -> Valid:
    """The configuration as it is."""
    request = model_management_pb2.ReloadConfigRequest()
    for name in (MODEL, SPARE):
        request.config.model_config_list.config.add(
            name=name, base_path=f"{base_path}/{name}", model_platform="tensorflow"
        )
    return Valid(RELOAD, request)


def _predict(rng: np.random.Generator) -> Valid:
    floats = np.array([1.5, 2.5, -1.0], np.float32)
    texts = np.array([row.SerializeToString() for row in map(_example, ROWS)], object)
    context = {name: stubs.ROWS[name][:1] for name in CONTEXT}
    candidates = {"price": floats[None], "tags": np.full((1, 3, 2), b"t", object)}
    choices: list[tuple[str, dict[str, Any]]] = [
        ("", dict(stubs.ROWS)),
        ("rank", {**context, **candidates}),
        ("double", {"values": floats}),
        ("fail", {"values": floats}),
        ("pair", {"pair": floats[:2][None]}),
        ("regress", {"inputs": texts}),
        ("regress_with_context", {"context": texts[:1], "examples": texts}),
    ]
    signature, inputs = choices[rng.integers(len(choices))]
    return Valid(f"{_PREDICTION}Predict", stubs.predict(inputs=inputs, signature_name=signature))


def _rank(rng: np.random.Generator) -> Valid:
    request = make_rank_request(
        MODEL,
        CONTEXT,
        CANDIDATES,
        rank_by=("", "click")[rng.integers(2)],
        top_k=int(rng.integers(4)),
    )
    return Valid(f"/{scoring_pb2.DESCRIPTOR.services_by_name['ScoringService'].full_name}/Rank",
                 request)  # fmt: skip


def _example(row: dict[str, Any]) -> Any:
    return stubs.example(**row)


def _examples(rng: np.random.Generator) -> Any:
    context = {"user": "bob"} if rng.integers(2) else None
    rows = [{"price": row["price"]} for row in ROWS] if context else ROWS
    return stubs.examples(*rows, context=context)


def _classify(rng: np.random.Generator) -> Valid:
    return Valid(f"{_PREDICTION}Classify", stubs.classify(_examples(rng)))


def _regress(rng: np.random.Generator) -> Valid:
    return Valid(f"{_PREDICTION}Regress", stubs.regress(_examples(rng)))


def _multi_inference(rng: np.random.Generator) -> Valid:
    tasks = (("classify", "classify"), ("regress", "regress"))
    return Valid(f"{_PREDICTION}MultiInference", stubs.multi_inference(_examples(rng), *tasks))


def _metadata(rng: np.random.Generator) -> Valid:
    return Valid(f"{_PREDICTION}GetModelMetadata", stubs.metadata("signature_def"))


def _status(rng: np.random.Generator) -> Valid:
    return Valid(f"{_MODELS}GetModelStatus", stubs.status())


def _health(rng: np.random.Generator) -> Valid:
    name = ("Check", "List")[rng.integers(2)]
    kind = health_pb2.HealthCheckRequest if name == "Check" else health_pb2.HealthListRequest
    return Valid(f"{_HEALTH}{name}", kind(**({"service": MODEL} if name == "Check" else {})))


def _watch(rng: np.random.Generator) -> Valid:
    return Valid(WATCH, health_pb2.HealthCheckRequest(service=MODEL))


def _reflection(rng: np.random.Generator) -> Valid:
    request = reflection_pb2.ServerReflectionRequest(
        file_containing_symbol="tensorflow.serving.PredictionService"
    )
    return Valid(REFLECTION, request)


def parses(method: str, content: bytes) -> bool:
    """Whether bytes are a message that a method takes."""
    try:
        _KINDS[method].FromString(content)
    except Exception:  # protobuf's own, of no declared dependency
        return False
    return True


def _kinds() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    makers = (_predict, _rank, _classify, _regress, _multi_inference, _metadata, _status, _watch,
              _reflection, lambda _: reload(""))  # fmt: skip
    found = {made.method: type(made.message) for made in (make(rng) for make in makers)}
    health = {"Check": health_pb2.HealthCheckRequest, "List": health_pb2.HealthListRequest}
    return found | {f"{_HEALTH}{name}": kind for name, kind in health.items()}


_KINDS = _kinds()
