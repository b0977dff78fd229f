"""Calls whose headers are no text: they end no server."""

from __future__ import annotations

import socket

import grpc
import pytest

from tests.serving.fuzz.streams import PREFACE, call_of, frame
from tests.serving.stubs import predict, send

_END_STREAM, _END_HEADERS = 1, 4
_HEAD = 9  # bytes before a frame's content
_ENDS = (1, 3, 7)  # headers, a reset, and the end of the connection
PREDICT = "/tensorflow.serving.PredictionService/Predict"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (":path", b"/\xff\xfe/Predict"),
        (":path", b"/tensorflow.serving.PredictionService/\x80"),
        (":path", b""),
        (":path", b"\xff" * 4000),
        (":authority", b"\xff"),
        (":method", b"\xff"),
        ("x-request-id", b"\xff"),
        ("authorization", b"Bearer \xff"),
        ("\u00ff", b"a"),
    ],
)
def test_one_is_answered_and_so_is_the_next(shared_address: str, name: str, value: bytes) -> None:
    host, port = shared_address.split(":")
    with socket.create_connection((host, int(port)), 10.0) as connection:
        call = call_of(PREDICT, (name, value), flags=_END_STREAM | _END_HEADERS)
        connection.sendall(PREFACE + frame(4, 0, 0, b"") + call)
        connection.settimeout(10.0)
        _wait_for_end(connection)
        with grpc.insecure_channel(shared_address) as channel:
            assert send(channel, predict()).outputs


def _wait_for_end(connection: socket.socket) -> None:
    """Waits for the call's end: an answer, a reset, or that of its connection."""
    with connection.makefile("rb") as stream:
        while head := stream.read(_HEAD):
            if head[3] in _ENDS:
                return
            stream.read(int.from_bytes(head[:3], "big"))
