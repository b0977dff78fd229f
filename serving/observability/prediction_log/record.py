"""A request and its answer as one row of the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from tensorflow_serving.apis import model_pb2, prediction_log_pb2

from serving.common.request_trace import RequestTrace
from serving.encoding.codec import encode
from serving.observability.prediction_log.files import Row

# By the request's message. What has no place of its own is logged as the Predict that it is for
# the signature.
_LOGS = {
    "tensorflow.serving.PredictRequest": "predict_log",
    "tensorflow.serving.ClassificationRequest": "classify_log",
    "tensorflow.serving.RegressionRequest": "regress_log",
    "tensorflow.serving.MultiInferenceRequest": "multi_inference_log",
}


class Answered(NamedTuple):
    """What the log keeps of a call; the call itself would keep its connection alive.

    `time` is when it was answered, in microseconds since 1970 (UTC).
    """

    time: int
    api: str
    request: Any
    response: Any
    model: str
    version: int
    signature: str
    request_id: str
    seconds: float
    inputs: Mapping[str, np.ndarray]
    results: Mapping[str, np.ndarray]

    @classmethod
    def of(cls, trace: RequestTrace, time: int) -> Self:
        return cls(
            time,
            trace.context.api,
            trace.message,
            trace.response,
            trace.model,
            trace.version or 0,
            trace.signature,
            trace.context.request_id,
            trace.seconds,
            trace.inputs,
            trace.results,
        )


def to_row(call: Answered, sampling_rate: float) -> Row:
    """The row of an answered request.

    Args:
        call: The request and its answer.
        sampling_rate: Share of the requests that are logged.

    Raises:
        TypeError: A PredictionLog has no place for it.
    """
    log = prediction_log_pb2.PredictionLog()
    spec = log.log_metadata.model_spec
    spec.name, spec.version.value, spec.signature_name = call.model, call.version, call.signature
    log.log_metadata.sampling_config.sampling_rate = sampling_rate
    log.log_metadata.timestamp_secs = call.time // 1_000_000
    name = "" if call.request is None else call.request.DESCRIPTOR.full_name
    if name in _LOGS:
        part = getattr(log, _LOGS[name])
        part.request.CopyFrom(call.request)
        part.response.CopyFrom(call.response)
    elif call.inputs:
        _fill(log.predict_log, spec, call)
    else:
        raise TypeError(f"A PredictionLog has no place for a {name}, and nothing was computed.")
    return Row(
        call.time,
        call.request_id,
        call.model,
        call.version,
        call.api,
        call.signature,
        1000 * call.seconds,
        log.SerializeToString(),
    )


def _fill(log: prediction_log_pb2.PredictLog, spec: model_pb2.ModelSpec, call: Answered) -> None:
    log.request.model_spec.CopyFrom(spec)
    log.response.model_spec.CopyFrom(spec)
    for tensors, arrays in (
        (log.request.inputs, call.inputs),
        (log.response.outputs, call.results),
    ):
        for name, array in arrays.items():
            tensors[name].CopyFrom(encode(array, content=True))
