"""Large bodies do not keep others from their answers."""

from __future__ import annotations

import contextlib
import gc
import gzip
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tensorflow_serving.apis import prediction_service_pb2_grpc

from serving.common.request_trace import RequestTrace
from serving.inference.concurrency import Turns
from serving.rest.bodies import LARGE
from serving.rest.server import RestServer
from tests.serving.commands import free_port
from tests.serving.conftest import StartServer
from tests.serving.rest.conftest import ask_port
from tests.serving.stubs import predict
from tests.serving.traces import trace

PREDICT = "/v1/models/tiny:predict"
BOMB = b'{"signature_name": "double", "instances": [' + b"1," * 20_000_000 + b"1]}"
CALLERS, ROUNDS = 8, 5
ITEMS = 30_011  # of a list that nothing else in the process is as long as
SECONDS = 4.0  # health used to wait for three times as long


class WatchedTurns(Turns):
    """Says that somebody has come for a turn."""

    def __init__(self) -> None:
        super().__init__(1)
        self.somebody_came = threading.Event()

    @contextlib.contextmanager
    def taken(self, call: RequestTrace) -> Iterator[None]:
        self.somebody_came.set()
        with super().taken(call):
            yield


class CountedTurns(Turns):
    """Counts the lists of `ITEMS` values that are still there at the end of each turn."""

    def __init__(self) -> None:
        super().__init__(1)
        self.left: list[int] = []

    @contextlib.contextmanager
    def taken(self, call: RequestTrace) -> Iterator[None]:
        with super().taken(call):
            try:
                yield
            finally:
                found = [one for one in gc.get_objects() if type(one) is list and len(one) == ITEMS]
                self.left.append(len(found))


@pytest.mark.parametrize(
    ("end", "message"),
    [("[1]", "Expecting ',' delimiter"), ("1]}", "at incorrect level")],
    ids=["unreadable", "unfit"],
)
def test_a_refused_body_leaves_nothing_behind_its_turn(
    rest: Callable[..., RestServer], end: str, message: str
) -> None:
    turns = CountedTurns()
    port = rest(large=turns, max_bytes=16 * (ITEMS + 10)).port
    text = '{"signature_name": "double", "instances": [' + "[1]," * (ITEMS - 1) + end
    status, document = ask_port(port, "POST", PREDICT, text.encode())
    assert status == 400
    assert message in document["error"]
    assert turns.left == [0]


@pytest.mark.parametrize(
    ("rows", "padding"),
    [(1, LARGE), (5000, 0)],
    ids=["body", "answer"],
)
def test_what_is_large_waits_for_its_turn_and_what_is_small_does_not(
    rest: Callable[..., RestServer], rows: int, padding: int
) -> None:
    turns = WatchedTurns()
    port = rest(large=turns, max_bytes=200_000, timeout_seconds=60.0).port
    body = {"signature_name": "pair", "instances": [[1, 2]] * rows, "other": " " * padding}
    small = {"signature_name": "double", "instances": [1.5]}
    with ThreadPoolExecutor(1) as pool:
        with turns.taken(trace("Predict")):
            turns.somebody_came.clear()
            asked = pool.submit(ask_port, port, "POST", PREDICT, body)
            assert turns.somebody_came.wait(10.0)
            for _ in range(3):
                expected = (200, {"predictions": [3.0]})
                assert ask_port(port, "POST", PREDICT, small) == expected
            assert not asked.done()
        status, document = asked.result()
    assert (status, len(document["predictions"])) == (200, rows)


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
