"""Calls that begin and never go on."""

from __future__ import annotations

import contextlib
import socket
import time

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.serving.fuzz.streams import PREFACE, call_of, frame

SETTINGS = frame(4, 0, 0, b"")
STALLED = 30


def test_probes_that_stall_keep_no_other_probe_from_its_answer(shared_address: str) -> None:
    host, port = shared_address.split(":")
    with contextlib.ExitStack() as stack:
        for _ in range(STALLED):
            stalled = stack.enter_context(socket.create_connection((host, int(port)), 10.0))
            stalled.sendall(PREFACE + SETTINGS + call_of("/grpc.health.v1.Health/Check"))
        time.sleep(0.3)
        channel = stack.enter_context(grpc.insecure_channel(shared_address))
        asked = health_pb2.HealthCheckRequest(service="tiny")
        answer = health_pb2_grpc.HealthStub(channel).Check(asked, timeout=10.0)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
