"""Reads logged records of any method: kind, Examples, batch shape and model specs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tensorflow_serving.apis import prediction_log_pb2

Shape = tuple[int, ...]


class UnreadableCall(Exception):
    """The error for a logged call that cannot be used; its text is a short reason."""


def parse(content: bytes) -> tuple[str, Any]:
    """Returns the kind of a record, such as `"predict_log"`, and its message."""
    try:
        log = prediction_log_pb2.PredictionLog.FromString(content)
    except Exception:  # protobuf's own, which has no name in a declared dependency
        raise UnreadableCall("a record is no PredictionLog") from None
    kind = log.WhichOneof("log_type")
    if kind not in ("predict_log", "classify_log", "regress_log", "multi_inference_log"):
        raise UnreadableCall(f"a record of type {kind} is not supported")
    return kind, getattr(log, kind)


def sampling_rate(content: bytes) -> float:
    """The share of the requests that the log of a record has."""
    log = prediction_log_pb2.PredictionLog.FromString(content)
    return float(log.log_metadata.sampling_config.sampling_rate)


def examples(request: Any) -> list[Any]:
    """The `tf.Example`s of a request other than Predict, merged with their context."""
    kind = request.input.WhichOneof("kind")
    if kind == "example_list":
        return list(request.input.example_list.examples)
    if kind != "example_list_with_context":
        return []
    with_context = request.input.example_list_with_context
    return merged(with_context.context, with_context.examples)


def merged(context: Any, messages: Iterable[Any]) -> list[Any]:
    """Merges the context into each Example; the Example's own features win."""
    rows = []
    for example in messages:
        row = type(example)()
        row.CopyFrom(context)
        row.MergeFrom(example)
        rows.append(row)
    return rows


def batch_shape(kind: str, log: Any) -> Shape:
    """The batch shape of a call: `(rows,)`, or `(requests, candidates)`."""
    if kind != "predict_log":
        return (len(examples(log.request)),)
    outputs = log.response.outputs
    dims = outputs[min(outputs)].tensor_shape.dim if outputs else ()
    return tuple(dim.size for dim in dims)[:2]


def specs(kind: str, request: Any) -> list[Any]:
    """Every model spec of a request."""
    if kind == "multi_inference_log":
        return [task.model_spec for task in request.tasks]
    return [request.model_spec]
