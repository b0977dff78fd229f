"""Replays the requests of a warm-up file, so that the first client does not wait."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from serving.common.errors import DataLoss, InvalidArgument, ServingError, Unimplemented
from serving.common.priority import lower_priority
from serving.config.server_config import CPUS
from serving.encoding.codec import parse
from serving.models.model import Model

WARMUP_FILE = "assets.extra/tf_serving_warmup_requests"
MAX_WARMUP_RECORDS = 1000
_REPLAYED = ("predict_log", "classify_log", "regress_log", "multi_inference_log")
_OP = re.compile(r"^\{\{.*?\}\} | \[Op:\w+\] name: ?$")  # TensorFlow's operation

# Answers one request message; the result is ignored.
Replay = Callable[[Any], object]


def warm_up(
    model: Model,
    replay: Replay,
    iterations: int = 1,
    is_beside_requests: bool = True,
    finish: Callable[[], object] | None = None,
) -> int:
    """Runs every record of the version's warm-up file and returns their number.

    Args:
        model: A loaded version that does not serve yet.
        replay: Answers a PredictRequest, ClassificationRequest, RegressionRequest or
            MultiInferenceRequest with the model.
        iterations: Runs of each record (`num_request_iterations`).
        is_beside_requests: Whether another version serves meanwhile. One thread of low priority
            warms then; else all signatures are warmed at the same time.
        afterwards: Called after the records, in a thread of the same priority.

    Raises:
        ServingError: A record is not a request, or its request fails.
    """
    file = model.path / WARMUP_FILE
    if not file.is_file():
        return 0

    def run(records: list[tuple[int, Any]]) -> None:
        for number, request in records:
            with _located(number, file):
                for _ in range(iterations):
                    replay(request)

    # A signature is slow the first time, so no two threads should meet there.
    groups: dict[str, list[tuple[int, Any]]] = {}
    count = 0
    for count, record in enumerate(_records(file), start=1):
        if count > MAX_WARMUP_RECORDS:
            raise InvalidArgument(
                f"Number of warmup records exceeds the maximum ({MAX_WARMUP_RECORDS}) at {file}"
            )
        with _located(count, file):
            request = _request(record)
        group = "" if is_beside_requests else _group(request)
        groups.setdefault(group, []).append((count, request))
    pool = (
        futures.ThreadPoolExecutor(1, "warm-up", initializer=lower_priority)
        if is_beside_requests
        else futures.ThreadPoolExecutor(CPUS, "warm-up")
    )
    with pool:
        for future in [pool.submit(run, records) for records in groups.values()]:
            future.result()
        if finish is not None:
            pool.submit(finish).result()
    return count


def _records(file: Path) -> Iterator[bytes]:
    try:
        yield from tf.data.TFRecordDataset(str(file)).as_numpy_iterator()
    except tf.errors.DataLossError as error:
        reason = _OP.sub("", error.message)
        raise DataLoss(
            f"{reason}. Please verify your warmup data is in TFRecord format: {file}"
        ) from error


@contextlib.contextmanager
def _located(number: int, file: Path) -> Iterator[None]:
    """Names the record in the error of the block."""
    try:
        yield
    except ServingError as error:
        raise ServingError(f"Warmup record {number} of {file}: {error}", error.code) from error


def _group(request: Any) -> str:
    """Returns the signature of a Predict request, or the form of the Examples of another one."""
    if "inputs" in request.DESCRIPTOR.fields_by_name:
        return f"signature {request.model_spec.signature_name}"
    return str(request.input.WhichOneof("kind"))


def _request(record: bytes) -> Any:
    """Returns the request message of a record."""
    try:
        log = parse(prediction_log_pb2.PredictionLog, record, "The record")
    except DataLoss as error:
        raise InvalidArgument(f"Failed to parse warmup record: {error}") from error
    kind = log.WhichOneof("log_type")
    if kind in _REPLAYED:
        return getattr(log, kind).request
    if kind == "predict_streamed_log":
        return _streamed_request(log.predict_streamed_log)
    number = 0 if kind is None else log.DESCRIPTOR.fields_by_name[kind].number
    raise Unimplemented(
        f"Unsupported log_type for warmup: {number} ({kind}). Expected: {', '.join(_REPLAYED)}"
    )


def _streamed_request(log: prediction_log_pb2.PredictStreamedLog) -> Any:
    """Returns the only request of a stream."""
    if not log.request:
        raise InvalidArgument("predict_streamed_log does not contain any requests.")
    if len(log.request) > 1:
        raise InvalidArgument(
            "predict_streamed_log contains more than one request, which is not supported by "
            "PredictStreamed."
        )
    return log.request[0]
