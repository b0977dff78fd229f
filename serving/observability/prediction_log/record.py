"""A request and its answer as one row of the log."""

from __future__ import annotations

import json
from dataclasses import asdict

from tensorflow_serving.apis import model_pb2, prediction_log_pb2

from serving.common.request_trace import RequestTrace
from serving.encoding.codec import encode
from serving.observability.prediction_log.log_files import Row

# By the type of the message. Others are logged as Predict calls on their signature.
_LOGS = {
    "tensorflow.serving.PredictRequest": "predict_log",
    "tensorflow.serving.ClassificationRequest": "classify_log",
    "tensorflow.serving.RegressionRequest": "regress_log",
    "tensorflow.serving.MultiInferenceRequest": "multi_inference_log",
}


def to_row(trace: RequestTrace, sampling_rate: float) -> Row:
    """Returns the row of an answered request; its time is that of the answer.

    Args:
        trace: The request and its answer.
        sampling_rate: Share of the requests that are logged.

    Raises:
        TypeError: A PredictionLog cannot hold the message, and nothing was computed.
    """
    seconds = trace.at + trace.seconds
    version = trace.version or 0
    log = prediction_log_pb2.PredictionLog()
    spec = log.log_metadata.model_spec
    spec.name, spec.version.value, spec.signature_name = trace.model, version, trace.signature
    log.log_metadata.sampling_config.sampling_rate = sampling_rate
    log.log_metadata.timestamp_secs = int(seconds)
    name = "" if trace.message is None else trace.message.DESCRIPTOR.full_name
    if name in _LOGS and trace.state is None:
        part = getattr(log, _LOGS[name])
        part.request.CopyFrom(trace.message)
        part.response.CopyFrom(trace.response)
    elif trace.inputs:
        _fill(log.predict_log, spec, trace)
    else:
        raise TypeError(f"A PredictionLog cannot hold a {name}, and nothing was computed.")
    return Row(
        time=round(1e6 * seconds),
        request_id=trace.context.request_id,
        model=trace.model,
        version=version,
        method=trace.context.api,
        signature=trace.signature,
        trace_id=trace.outgoing.trace_id,
        milliseconds=1000 * trace.seconds,
        log=log.SerializeToString(),
        state="" if trace.state is None else json.dumps(asdict(trace.state)),
        label=trace.label,
    )


def _fill(
    log: prediction_log_pb2.PredictLog, spec: model_pb2.ModelSpec, trace: RequestTrace
) -> None:
    log.request.model_spec.CopyFrom(spec)
    log.response.model_spec.CopyFrom(spec)
    for tensors, arrays in (
        (log.request.inputs, trace.inputs),
        (log.response.outputs, trace.results),
    ):
        for name, array in arrays.items():
            encode(array, tensors[name], content=True)
