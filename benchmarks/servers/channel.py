"""Requests as the bytes that they are: what the client costs is not of the servers' making."""

from __future__ import annotations

from collections.abc import Callable

import grpc

UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
PREDICT = "/tensorflow.serving.PredictionService/Predict"
_TIMEOUT = 300.0  # as most callers have one; this one waits for any answer
OWN_CONNECTION = ("grpc.use_local_subchannel_pool", 1)

Send = Callable[[bytes], bytes]


def sender(address: str) -> Send:
    """Sends a serialised request over a connection of its own, and waits for the answer."""
    channel = grpc.insecure_channel(address, options=[*UNLIMITED, OWN_CONNECTION])
    method = channel.unary_unary(PREDICT)  # without serializers, bytes stay bytes

    def send(request: bytes) -> bytes:
        return method(request, timeout=_TIMEOUT, wait_for_ready=True)

    return send
