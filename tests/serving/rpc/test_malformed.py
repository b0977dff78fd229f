"""Messages that are not valid protobuf: answered, reported, and freed."""

from __future__ import annotations

from concurrent import futures

import grpc
from grpc_health.v1 import health_pb2_grpc

from serving.common.errors import ServingError
from serving.common.request_trace import RequestTrace
from serving.rpc.health import Health
from serving.rpc.malformed import MalformedRequests
from serving.rpc.reflection import add_reflection

GARBAGE = b"\xff\xff"
UNARY = ("/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/List")
STREAMS = (
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.health.v1.Health/Watch",
)


def _codes(channel: grpc.Channel) -> list[tuple[grpc.StatusCode, str]]:
    calls = [channel.unary_unary(path).future(GARBAGE, timeout=10) for path in UNARY]
    calls += [channel.stream_stream(path)(iter([GARBAGE]), timeout=10) for path in STREAMS]
    return [(call.code(), call.details()) for call in calls]


def test_a_server_that_got_malformed_messages_still_ends() -> None:
    """gRPC's own answer to a malformed stream leaves the call open for good."""
    reported: list[tuple[RequestTrace, ServingError]] = []
    interceptor = MalformedRequests(lambda *rejected: reported.append(rejected))
    server = grpc.server(futures.ThreadPoolExecutor(4), interceptors=[interceptor])
    health = Health()
    health_pb2_grpc.add_HealthServicer_to_server(health, server)
    add_reflection(server, [])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        answers = _codes(channel)
        watch = channel.unary_stream("/grpc.health.v1.Health/Watch")(b"", timeout=10)
        assert next(watch) == b"\x08\x02", "a valid message passes: NOT_SERVING"
    assert {code for code, _ in answers} == {grpc.StatusCode.INTERNAL}
    assert all(details.startswith("Malformed request: ") for _, details in answers)
    names = sorted(trace.context.api for trace, _ in reported)
    assert names == ["Check", "List", "ServerReflectionInfo", "Watch"]
    health.drain()
    assert server.stop(1).wait(10)
