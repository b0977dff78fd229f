"""A plain gRPC server, as a page of Python makes it: `serving_default` of a loaded SavedModel.

    python -m benchmarks.servers.plain FOLDER ADDRESS

FOLDER holds NAME/1 for each model. It answers Predict alone, and knows rows alone.
"""

from __future__ import annotations

import os
import sys
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from benchmarks.servers.channel import UNLIMITED

WORKERS = 4 * (os.cpu_count() or 1)  # as ours has without batching


class PredictionService(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Scores of rows."""

    def __init__(self, folder: Path) -> None:
        self._models = {path.name: tf.saved_model.load(path / "1") for path in folder.iterdir()}

    def Predict(
        self, request: predict_pb2.PredictRequest, context: grpc.ServicerContext
    ) -> predict_pb2.PredictResponse:
        function = self._models[request.model_spec.name].signatures["serving_default"]
        inputs: dict[str, Any] = {
            name: tf.constant(tf.make_ndarray(proto)) for name, proto in request.inputs.items()
        }
        response = predict_pb2.PredictResponse()
        for name, value in function(**inputs).items():
            response.outputs[name].CopyFrom(tf.make_tensor_proto(value.numpy()))
        return response


def main() -> None:
    """Serves until it is ended."""
    server = grpc.server(futures.ThreadPoolExecutor(WORKERS), options=UNLIMITED)
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
        PredictionService(Path(sys.argv[1])), server
    )
    server.add_insecure_port(sys.argv[2])
    server.start()
    server.wait_for_termination()


if __name__ == "__main__":
    main()
