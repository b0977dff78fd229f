"""The fuzzer's requests: number n of a seed is always the same one."""

from __future__ import annotations

import dataclasses

import numpy as np
from google.protobuf.message import Message
from tensorflow_serving.apis import model_management_pb2

from tests.serving.fuzz.cases import Case, Way
from tests.serving.fuzz.http import make_http
from tests.serving.fuzz.messages import TEXTS, mutate_fields, pick
from tests.serving.fuzz.requests import MODEL, RELOAD, Valid, reload, valid
from tests.serving.fuzz.streams import make_stream
from tests.serving.fuzz.values import mutate_values
from tests.serving.fuzz.wire import invalid_text, mutate_bytes, nested, varint

MAX_MESSAGE_BYTES = 4 * 2**20  # of the server under test
_METADATA = (
    ("x-request-id", "a" * 4000), ("x-request-id", ""), ("authorization", "Bearer"),
    ("authorization", "bearer  wrong"), ("authorization", "Basic a"), ("x", "a" * 6000),
)  # fmt: skip
_PATHS = (
    "/", "//", "/a", "/tensorflow.serving.PredictionService/", "/grpc.health.v1.Health/check",
    "/tensorflow.serving.PredictionService/Predict/", "/a.b/" + "c" * 2000, "/%00/\t",
    "/tensorflow.serving.SessionService/SessionRun",
)  # fmt: skip


def make_case(seed: int, number: int, base_path: str) -> Case:
    """Request `number` of a seed."""
    rng = np.random.default_rng((seed, number))
    share = rng.random()
    if share < 0.6:
        case = _make_call(rng, base_path)
    else:
        case = make_http(rng) if share < 0.9 else make_stream(rng)
    return dataclasses.replace(case, number=number)


def _make_call(rng: np.random.Generator, base_path: str) -> Case:
    method, message = valid(rng, base_path)
    share = rng.random()
    metadata: tuple[tuple[str, str], ...] = ()
    timeout = 60.0
    if method == RELOAD:
        kind, content = "reload", _reload(rng, Valid(method, message))
    elif share < 0.3:
        kind, content = _fields(rng, message), _bytes(message)
    elif share < 0.6:
        kind = mutate_values(rng, message) or _fields(rng, message)
        content = _bytes(message)
    elif share < 0.8:
        other = valid(rng, base_path)
        spliced = b"" if other.method == RELOAD else _bytes(other.message)
        kind, content = "bytes", mutate_bytes(rng, _bytes(message), spliced)
    elif share < 0.88:
        kind, content = "invalid UTF-8", invalid_text(rng, _bytes(message))
    elif share < 0.91:
        kind, content = "nesting", _bytes(message) + nested(rng)
    elif share < 0.915:
        kind, content = "oversized", _oversized(rng, _bytes(message))
    elif share < 0.93:
        kind, content, method = "path", _bytes(message), pick(rng, _PATHS)
    elif share < 0.96:
        kind, content, metadata = "metadata", _bytes(message), (pick(rng, _METADATA),)
    elif share < 0.98:
        kind, content, timeout = "deadline", _bytes(message), pick(rng, (0.0001, 0.001, 0.005))
    else:
        kind, content = "garbage", rng.bytes(int(rng.integers(200)))
    return Case(f"gRPC {kind}", Way.GRPC, content, method, metadata, timeout)


def _fields(rng: np.random.Generator, message: Message) -> str:
    mutate_fields(rng, message)
    return "fields"


def _bytes(message: Message) -> bytes:
    return message.SerializeToString(deterministic=True)


def _oversized(rng: np.random.Generator, content: bytes) -> bytes:
    """A message around the limit: a field that nobody knows makes it long."""
    filling = MAX_MESSAGE_BYTES - len(content) + pick(rng, (-100, -10, 0, 10, 1000))
    return content + varint(1000 << 3 | 2) + varint(filling) + b"a" * filling


def _reload(rng: np.random.Generator, sent: Valid) -> bytes:
    """A reload that leaves the model that good requests ask for as it is, whatever else it does."""
    models = sent.message.config.model_config_list.config
    base_path = models[0].base_path.removesuffix(f"/{MODEL}")
    share = rng.random()
    if share < 0.5:
        mutate_fields(rng, models[1])
    elif share < 0.7:
        models[1].base_path = pick(rng, TEXTS)
    elif share < 0.9:
        models[1].version_labels[pick(rng, TEXTS)] = pick(rng, (5, 6, -1))
    content = _bytes(sent.message)
    if share >= 0.9:
        content = mutate_bytes(rng, content, b"")
    return content if _is_harmless(content, base_path) else _bytes(reload(base_path).message)


def _is_harmless(content: bytes, base_path: str) -> bool:
    """Whether the model stays, or the message is none."""
    try:
        found = model_management_pb2.ReloadConfigRequest.FromString(content)
    except Exception:  # protobuf's own, of no declared dependency
        return True
    expected = reload(base_path).message.config.model_config_list.config[0]
    models = [m for m in found.config.model_config_list.config if m.name == MODEL]
    return found.config.WhichOneof("config") is None or models[:1] == [expected]
