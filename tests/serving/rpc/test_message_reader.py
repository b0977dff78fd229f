"""Bytes that are no message are answered, and leave nothing behind."""

from __future__ import annotations

import functools
import gc
from collections import Counter
from collections.abc import Callable

import grpc
import pytest
from grpc_health.v1 import health_pb2

STATUS = "/tensorflow.serving.ModelService/GetModelStatus"
METHODS = (STATUS, "/tensorflow.serving.PredictionService/Predict", "/grpc.health.v1.Health/Check")
WATCH = "/grpc.health.v1.Health/Watch"
GARBAGE = b"\xff\xff"


def _code(call: Callable[[], object]) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError) as raised:
        call()
    return raised.value.code(), raised.value.details()


def test_the_code_and_the_words_are_grpcs_own(shared_channel: grpc.Channel) -> None:
    expected = (grpc.StatusCode.INTERNAL, "Exception deserializing request!")
    for ask in map(shared_channel.unary_unary, METHODS):
        assert _code(functools.partial(ask, GARBAGE, timeout=10.0)) == expected
    watch = shared_channel.unary_stream(WATCH)(GARBAGE, timeout=10.0)
    assert _code(lambda: next(watch)) == expected


def test_a_call_is_forgotten(shared_channel: grpc.Channel) -> None:
    ask = shared_channel.unary_unary(STATUS)

    def states() -> int:
        for _ in range(20):
            _code(lambda: ask(GARBAGE, timeout=10.0))
        gc.collect()
        return Counter(type(one).__name__ for one in gc.get_objects())["_RPCState"]

    before = states()
    assert states() - before < 10


def test_messages_are_read(shared_channel: grpc.Channel) -> None:
    asked = health_pb2.HealthCheckRequest(service="tiny").SerializeToString()
    answer = shared_channel.unary_unary(METHODS[2])(asked, timeout=10.0)
    serving = health_pb2.HealthCheckResponse.SERVING
    assert health_pb2.HealthCheckResponse.FromString(answer).status == serving
    with pytest.raises(grpc.RpcError) as raised:
        shared_channel.unary_unary("/tensorflow.serving.ModelService/None")(asked, timeout=10.0)
    assert raised.value.code() == grpc.StatusCode.UNIMPLEMENTED
