"""The limits of gRPC's own that options set."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
from collections import Counter
from pathlib import Path

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.serving.conftest import StartServer
from tests.serving.stubs import predict, send


def _burst(address: str) -> list[grpc.StatusCode]:
    """What many calls at once hear; in a process of its own, since one of Python is too slow."""
    asked = health_pb2.HealthCheckRequest()
    with contextlib.ExitStack() as stack:
        stubs = []
        for _ in range(4):
            options = [("grpc.use_local_subchannel_pool", 1)]
            channel = stack.enter_context(grpc.insecure_channel(address, options))
            grpc.channel_ready_future(channel).result(30.0)
            stubs.append(health_pb2_grpc.HealthStub(channel))
        calls = [stubs[n % 4].Check.future(asked, timeout=60.0) for n in range(1500)]
        return [call.code() for call in calls]


def test_a_burst_of_calls_is_answered(shared_address: str) -> None:
    """Beyond a thousand that nobody has seen yet gRPC refuses some, where it is not told."""
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        heard = Counter(itertools.chain(*pool.map(_burst, [shared_address] * 3)))
    assert heard == {grpc.StatusCode.OK: 4500}


def test_arguments_of_grpcs_own_reach_it_in_place_of_ours(
    base_path: Path, start_server: StartServer
) -> None:
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
