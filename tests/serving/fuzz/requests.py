"""Valid requests of each API: the mutations begin with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from grpc_health.v1 import health_pb2

from serving.protos import scoring_pb2
from tests.serving import stubs

_PREDICTION = "/tensorflow.serving.PredictionService/"
_ROWS: tuple[dict[str, Any], ...] = ({"user": "ann", "price": 1.5}, {"user": "", "price": 2.5})


class Valid(NamedTuple):
    """A method and a message that it takes."""

    method: str
    message: Any


def valid(rng: np.random.Generator) -> Valid:
    """Returns a valid request of a random API."""
    return _MAKERS[rng.integers(len(_MAKERS))](rng)


def _predict(rng: np.random.Generator) -> Valid:
    floats = np.array([1.5, 2.5, -1.0], np.float32)
    texts = np.array([stubs.example(**row).SerializeToString() for row in _ROWS], object)
    context = {name: stubs.ROWS[name][:1] for name in ("user", "age", "history")}
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
    request = scoring_pb2.RankRequest(
        rank_by=("", "click")[rng.integers(2)], top_k=int(rng.integers(4))
    )
    request.model_spec.name = "tiny"
    request.context["user"].strings.values.append("ann")
    request.context["age"].ints.values.append(31)
    request.context["history"].strings.values.extend(["i1", "i2"])
    request.context["history"].lengths.append(2)
    request.candidates["price"].floats.values.extend([1.5, 0.0, 2.5])
    request.candidates["price"].missing.append(1)
    request.candidates["tags"].strings.values.extend(["t", "a", "b"])
    request.candidates["tags"].lengths.extend([1, 0, 2])
    service = scoring_pb2.DESCRIPTOR.services_by_name["ScoringService"].full_name
    return Valid(f"/{service}/Rank", request)


def _examples(rng: np.random.Generator) -> Any:
    context = {"user": "bob"} if rng.integers(2) else None
    rows = [{"price": row["price"]} for row in _ROWS] if context else _ROWS
    return stubs.examples(*rows, context=context)


_TASKS = (("classify", "classify"), ("regress", "regress"))
_MAKERS: tuple[Callable[[np.random.Generator], Valid], ...] = (
    *[_predict, _rank] * 3,
    lambda rng: Valid(f"{_PREDICTION}Classify", stubs.classify(_examples(rng))),
    lambda rng: Valid(f"{_PREDICTION}Regress", stubs.regress(_examples(rng))),
    lambda rng: Valid(
        f"{_PREDICTION}MultiInference", stubs.multi_inference(_examples(rng), *_TASKS)
    ),
    lambda rng: Valid(f"{_PREDICTION}GetModelMetadata", stubs.metadata("signature_def")),
    lambda rng: Valid("/tensorflow.serving.ModelService/GetModelStatus", stubs.status()),
    lambda rng: Valid("/grpc.health.v1.Health/Check", health_pb2.HealthCheckRequest()),
)
_TYPES = {one.method: type(one.message) for one in (m(np.random.default_rng(0)) for m in _MAKERS)}


def parses(method: str, content: bytes) -> bool:
    """Returns whether bytes are a message that a method takes."""
    try:
        _TYPES[method].FromString(content)
    except Exception:  # protobuf's own, of no declared dependency
        return False
    return True
