"""The steps of every request: read -> compute -> write.

`read` turns a message into calls of signatures, the model computes them, and `write` makes the
answer. The three are plain functions; a `Plan` is what `read` returns.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from tensorflow_serving.apis import model_pb2

from serving.common.request import InferenceRequest, ModelRef
from serving.common.request_trace import RequestTrace
from serving.models.model import Model

Results = Mapping[str, np.ndarray]


class Plan(NamedTuple):
    """The calls of signatures that answer one message.

    Args:
        requests: The calls, in their order.
        write: Makes the answer from the outputs of each call.
        complete: Writes into the answer what the trace of the request knows.
    """

    requests: tuple[InferenceRequest, ...]
    write: Callable[[Sequence[Results]], Any]
    complete: Callable[[Any, RequestTrace], object] | None = None


class Api(NamedTuple):
    """One kind of message: Predict, Classify, ...

    Args:
        name: Name of the API, in logs and metrics.
        service: Name of its gRPC service.
        model_spec: Returns the model spec of a message.
        read: Makes the plan of a message, for the version that answers it.
    """

    name: str
    service: str
    model_spec: Callable[[Any], model_pb2.ModelSpec]
    read: Callable[[Model, Any], Plan]

    @property
    def method(self) -> str:
        """The full method of gRPC."""
        return f"{self.service}/{self.name}"


def compute(model: Model, plan: Plan, trace: RequestTrace) -> Any:
    """Computes a plan and returns the answer."""
    trace.admission_seconds, trace.read_at = trace.queue_seconds, time.perf_counter()
    results = [model.compute(request, trace) for request in plan.requests]
    trace.computed_at = time.perf_counter()
    trace.computed = tuple(zip(plan.requests, results, strict=True))
    answer = plan.write(results)
    if plan.complete is not None:
        plan.complete(answer, trace)
    return answer


def ref_to(model: Model) -> ModelRef:
    """Returns a reference to a loaded version."""
    return ModelRef(model.name, model.version)


def write_spec(spec: model_pb2.ModelSpec, model: Model, signature: str = "") -> None:
    """Writes the version and the signature of an answer."""
    spec.name = model.name
    spec.version.value = model.version
    spec.signature_name = signature
