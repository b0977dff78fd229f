"""Predict: a request as work for a signature, and its results as the answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from tensorflow_serving.apis import model_pb2, predict_pb2

from serving.common.call import Call
from serving.common.signatures import DEFAULT_SIGNATURE
from serving.encoding.codec import decode, encode
from serving.models.model import Model
from serving.models.signature import Signature


class Task(NamedTuple):
    """What a request asks to be computed."""

    signature: Signature
    inputs: dict[str, np.ndarray]
    outputs: tuple[str, ...]

    async def run(self, call: Call) -> dict[str, Any]:
        """Outputs by name; the call learns what was computed."""
        return await self.signature.run(self.inputs, self.outputs, call)


async def predict(model: Model, request: predict_pb2.PredictRequest, call: Call) -> Any:
    """The answer of a version to a Predict request."""
    task = read_request(model, request)
    return write_response(model, task.signature, await task.run(call))


def read_request(model: Model, request: predict_pb2.PredictRequest) -> Task:
    """The task of a request; tensors are decoded once their names are known to be right."""
    signature = model.signature(request.model_spec.signature_name or DEFAULT_SIGNATURE)
    signature.check_names(request.inputs)
    outputs = signature.select(tuple(request.output_filter))
    inputs = {name: decode(name, proto) for name, proto in request.inputs.items()}
    return Task(signature, inputs, outputs)


def write_response(
    model: Model, signature: Signature, results: Mapping[str, Any]
) -> predict_pb2.PredictResponse:
    """The answer, which names the version that computed it."""
    response = predict_pb2.PredictResponse()
    write_spec(response.model_spec, model, signature.key)
    for name, value in results.items():
        response.outputs[name].CopyFrom(encode(value))
    return response


def write_spec(spec: model_pb2.ModelSpec, model: Model, signature: str = "") -> None:
    """Names the version, and the signature, that an answer is of."""
    spec.name = model.name
    spec.version.value = model.version
    spec.signature_name = signature
