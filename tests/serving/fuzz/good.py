"""Good requests, sent beside the malformed ones: each must be answered rightly and in time."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable
from typing import Any

import grpc
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import prediction_service_pb2_grpc

from serving.protos import scoring_pb2_grpc
from tests.serving import stubs
from tests.serving.fuzz.process import ServerProcess
from tests.serving.fuzz.requests import CANDIDATES, CONTEXT, MODEL, ROWS
from tests.serving.rank_messages import make_rank_request

_WEIGHT = 2.0  # of the price in the model


class GoodCaller(threading.Thread):
    """Sends good requests one after the other until it is stopped.

    Args:
        server: Where to.
        limit: Seconds in which each must be answered.

    Attributes:
        seconds: What each took.
        failures: What was wrong.
    """

    def __init__(self, server: ServerProcess, limit: float) -> None:
        super().__init__(name="good-requests", daemon=True)
        self._server = server
        self._limit = limit
        self._ended = threading.Event()
        self.seconds: list[float] = []
        self.failures: list[str] = []

    def run(self) -> None:
        address = f"127.0.0.1:{self._server.grpc_port}"
        with grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
            rest = http.client.HTTPConnection(
                "127.0.0.1", self._server.rest_port, timeout=self._limit
            )
            calls: tuple[tuple[str, Callable[[], None]], ...] = (
                ("Predict", lambda: self._predict(channel)),
                ("Regress", lambda: self._regress(channel)),
                ("Rank", lambda: self._rank(channel)),
                ("REST", lambda: self._rest(rest)),
            )
            while not self._ended.is_set():
                for name, call in calls:
                    self._try(name, call)
            rest.close()

    def stop(self) -> None:
        """Ends it."""
        self._ended.set()
        self.join()

    def _try(self, name: str, call: Callable[[], None]) -> None:
        started = time.perf_counter()
        try:
            call()
        except (grpc.RpcError, OSError, http.client.HTTPException, AssertionError) as error:
            self.failures.append(f"{name}: {type(error).__name__}: {error}")
            self._ended.wait(1.0)
            return
        self.seconds.append(time.perf_counter() - started)
        self._ended.wait(0.02)

    def _options(self) -> dict[str, Any]:
        metadata = (("authorization", f"Bearer {self._server.token}"),)
        return {"timeout": self._limit, "metadata": metadata if self._server.token else ()}

    def _predict(self, channel: grpc.Channel) -> None:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        answer = stub.Predict(stubs.predict(MODEL), **self._options())
        # Price, history, tags; letters of the name and age: as the model's first lines say.
        np.testing.assert_allclose(
            tf.make_ndarray(answer.outputs["click"]), [_WEIGHT * 1.5 + 2 + 100, 0.0]
        )
        np.testing.assert_allclose(tf.make_ndarray(answer.outputs["convert"]), [34.0, 0.0])

    def _regress(self, channel: grpc.Channel) -> None:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        answer = stub.Regress(stubs.regress(stubs.examples(*ROWS)), **self._options())
        values = [one.value for one in answer.result.regressions]
        np.testing.assert_allclose(values, [_WEIGHT * 1.5 + 3, _WEIGHT * 2.5])

    def _rank(self, channel: grpc.Channel) -> None:
        stub = scoring_pb2_grpc.ScoringServiceStub(channel)
        request = make_rank_request(MODEL, CONTEXT, CANDIDATES, rank_by="click")
        answer = stub.Rank(request, **self._options())
        scores = [_WEIGHT * 1.5 + 2 + 100, 2.0, _WEIGHT * 2.5 + 2 + 200]
        np.testing.assert_allclose(answer.scores["click"].values, scores)
        np.testing.assert_array_equal(answer.ranking, [2, 0, 1])

    def _rest(self, connection: http.client.HTTPConnection) -> None:
        headers = {"Authorization": f"Bearer {self._server.token}"} if self._server.token else {}
        body = json.dumps({"signature_name": "double", "instances": [1.5, -2.0]})
        connection.request("POST", f"/v1/models/{MODEL}:predict", body, headers)
        with connection.getresponse() as response:
            document = json.loads(response.read())
        np.testing.assert_equal(document, {"predictions": [3.0, -4.0]})
