"""TensorFlow Serving's warm-up file: requests that a server replays before it takes traffic."""

from __future__ import annotations

from pathlib import Path

import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

from pipelines.raw import Raw

WARMUP_FILE = Path("assets.extra") / "tf_serving_warmup_requests"


def write_warmup(folder: Path, name: str, requests: list[tuple[str, Raw]]) -> None:
    """Writes `(signature, inputs)` pairs as a TFRecord of `PredictionLog` into a SavedModel."""
    path = folder / WARMUP_FILE
    path.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for signature, inputs in requests:
            request = predict_pb2.PredictRequest()
            request.model_spec.name = name
            request.model_spec.signature_name = signature
            for key, array in inputs.items():
                request.inputs[key].CopyFrom(tf.make_tensor_proto(array))
            log = prediction_log_pb2.PredictLog(request=request)
            writer.write(prediction_log_pb2.PredictionLog(predict_log=log).SerializeToString())
