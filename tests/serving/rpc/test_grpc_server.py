"""The limits of the gRPC server."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tensorflow_serving.apis import prediction_service_pb2_grpc

from serving.config.server_config import ServerConfig
from serving.rpc.grpc_server import LateHandlers, listen, make_grpc_server
from serving.rpc.health import Health
from tests.serving.conftest import StartServer, wait_until
from tests.serving.stubs import predict, send


def test_probes_are_answered_while_requests_wait(
    base_path: Path, start_server: StartServer
) -> None:
    """The limit rejects what its queue cannot hold, so threads are left for health checks."""
    _, address = start_server(base_path, grpc_max_threads=1, max_concurrent_requests=100)
    wait = predict(inputs={"seconds": np.float32([5.0])}, signature_name="wait")
    with grpc.insecure_channel(address) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        calls = [stub.Predict.future(wait, timeout=30.0) for _ in range(200)]
        wait_until(lambda: sum(call.done() for call in calls) >= 100, 4.0)
        check = health_pb2_grpc.HealthStub(channel).Check
        for _ in range(10):
            check(health_pb2.HealthCheckRequest(), timeout=0.5)
        codes = Counter(call.code() for call in calls if call.done())
        for call in calls:
            call.cancel()
    assert set(codes) == {grpc.StatusCode.RESOURCE_EXHAUSTED}
    assert codes.total() >= 100, "more as the seconds pass: they would be late"


def test_channel_arguments_replace_the_defaults(base_path: Path, start_server: StartServer) -> None:
    _, address = start_server(
        base_path,
        grpc_channel_arguments="grpc.max_receive_message_length=1000,grpc.primary_user_agent=ctr",
    )
    large = predict(inputs={"values": np.ones(1000, np.float32)}, signature_name="double")
    with grpc.insecure_channel(address) as channel:
        assert send(channel, predict()).outputs
        with pytest.raises(grpc.RpcError) as raised:
            send(channel, large)
    assert raised.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


def test_burst_of_calls_is_accepted() -> None:
    """Calls that gRPC does not accept are reset: their clients get CANCELLED."""
    config = ServerConfig("/models/ctr")
    server = make_grpc_server(config, Health(), LateHandlers(), ())
    address = f"127.0.0.1:{listen(server, config, 0, None)}"
    server.start()

    async def burst() -> Counter[grpc.StatusCode]:
        async with grpc.aio.insecure_channel(address) as channel:
            call = channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
            calls = [call(bytes(1000), timeout=30.0) for _ in range(907)]
            return Counter([await one.code() for one in calls])

    assert asyncio.run(burst()) == {grpc.StatusCode.UNAVAILABLE: 907}, "it is still starting"
    server.stop(None).wait()
