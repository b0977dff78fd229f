"""A request and its answer as one row of the log."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

from tensorflow_serving.apis import prediction_log_pb2

from serving.call import Call
from serving.prediction_log.files import Row

# By the request's message: a method of the project's own that sends one of these is logged too.
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

    @classmethod
    def of(cls, call: Call, time: int) -> Self:
        return cls(
            time,
            call.api,
            call.request,
            call.response,
            call.model,
            call.version or 0,
            call.signature,
            call.request_id,
            call.seconds,
        )


def to_row(call: Answered, sampling_rate: float) -> Row:
    """The row of an answered request.

    Args:
        call: The request and its answer.
        sampling_rate: Share of the requests that are logged.

    Raises:
        TypeError: `PredictionLog` has no place for a message of the request's type.
    """
    name = call.request.DESCRIPTOR.full_name
    if name not in _LOGS:
        raise TypeError(
            f"`call.request` must be one of {', '.join(sorted(_LOGS))}: no other fits into a "
            f"PredictionLog. Received: {name}"
        )
    log = prediction_log_pb2.PredictionLog()
    spec = log.log_metadata.model_spec
    spec.name, spec.version.value, spec.signature_name = call.model, call.version, call.signature
    log.log_metadata.sampling_config.sampling_rate = sampling_rate
    log.log_metadata.timestamp_secs = call.time // 1_000_000
    part = getattr(log, _LOGS[name])
    part.request.CopyFrom(call.request)
    part.response.CopyFrom(call.response)
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
