"""Replays the requests that a version brings along, so that its first caller does not wait."""

from __future__ import annotations

import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from serving.call import Call
from serving.codec import parse
from serving.errors import DataLoss, InvalidArgument, ServingError, Unimplemented
from serving.model import Model
from serving.predict import predict

WARMUP_FILE = "assets.extra/tf_serving_warmup_requests"
MAX_WARMUP_RECORDS = 1000


def warm_up(model: Model) -> int:
    """Runs every record of the version's warm-up file and returns their number.

    Raises:
        ServingError: A record is not a request, or it fails: the version must not serve.
    """
    file = model.path / WARMUP_FILE
    if not file.is_file():
        return 0
    count = 0
    try:
        for record in tf.data.TFRecordDataset(str(file)).as_numpy_iterator():
            count += 1
            if count > MAX_WARMUP_RECORDS:
                raise InvalidArgument(
                    f"Number of warmup records exceeds the maximum ({MAX_WARMUP_RECORDS}) at {file}"
                )
            try:
                _replay(model, record)
            except ServingError as error:
                reason = f"Warmup record {count} of {file}: {error}"
                raise ServingError(reason, error.code) from error
    except tf.errors.DataLossError as error:
        raise DataLoss(
            f"{error.message}. Please verify your warmup data is in TFRecord format: {file}"
        ) from error
    return count


def _replay(model: Model, record: bytes) -> None:
    log = parse(prediction_log_pb2.PredictionLog, record, "The record")
    kind = log.WhichOneof("log_type")
    if kind != "predict_log":
        raise Unimplemented(f"Unsupported log_type for warmup: {kind}. Expected: predict_log")
    request = log.predict_log.request
    predict(model, request, Call("Predict", "WARMUP"))
