"""Bodies that unpack to much more do not keep others from their answers."""

from __future__ import annotations

import gzip
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import numpy as np
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tensorflow_serving.apis import prediction_service_pb2_grpc

from tests.serving.commands import free_port
from tests.serving.conftest import StartServer
from tests.serving.rest.conftest import ask_port
from tests.serving.stubs import predict

PREDICT = "/v1/models/tiny:predict"
BOMB = b'{"signature_name": "double", "instances": [' + b"1," * 20_000_000 + b"1]}"
CALLERS, ROUNDS = 8, 5
SECONDS = 4.0  # health used to wait for three times as long


def test_health_and_rows_are_answered_beside_bombs(
    base_path: Path, start_server: StartServer
) -> None:
    body, is_over, port = gzip.compress(BOMB, 1), threading.Event(), free_port()
    _, address = start_server(base_path, rest_api_port=port)

    def call() -> set[int]:
        statuses = set()
        while not is_over.is_set():
            statuses.add(ask_port(port, "POST", PREDICT, body, {"Content-Encoding": "gzip"})[0])
        return statuses

    with ThreadPoolExecutor(CALLERS) as pool, grpc.insecure_channel(address) as channel:
        callers = [pool.submit(call) for _ in range(CALLERS)]
        health = health_pb2_grpc.HealthStub(channel)
        prediction = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        request = predict(inputs={"values": np.float32([1.5])}, signature_name="double")
        rows = {"signature_name": "double", "instances": [1.5]}
        try:
            for _ in range(ROUNDS):
                found = health.Check(health_pb2.HealthCheckRequest(), timeout=SECONDS)
                assert found.status == health_pb2.HealthCheckResponse.SERVING
                prediction.Predict(request, timeout=SECONDS)
                assert ask_port(port, "GET", "/healthz") == (200, "ok\n")
                assert ask_port(port, "POST", PREDICT, rows) == (200, {"predictions": [3.0]})
        finally:
            is_over.set()
        assert set.union(*(caller.result() for caller in callers)) == {429}
