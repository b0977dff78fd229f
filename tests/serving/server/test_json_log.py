"""With `--log-format json` a server writes nothing but lines of JSON, whatever is sent to it."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import time
from pathlib import Path
from typing import Any

import grpc
import pytest

from serving.client.connection import METHODS
from tests.serving.commands import Command, free_port

LISTENING = re.compile(r"Listening on (\S+) .* \S+:(\d+) \(REST")
UNARY = (
    *(f"/{service}/{name}" for service, methods in METHODS.items() for name, *_ in methods),
    "/recsys_attn.serving.ScoringService/Rank",
    "/tensorflow.serving.PredictionService/MultiInference",
    "/no/such\nmethod",
)
STREAMS = (
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    "/grpc.health.v1.Health/Watch",
)
HTTP = (
    b"\x00\xffgarbage\r\n\r\n",
    b"POST /v1/models/tiny:predict HTTP/1.1\r\nHost: \xff\r\nContent-Length: 1\r\n\r\n{",
    b"GET /v1/models/%0a%0d%22 HTTP/1.1\r\nHost: x\r\n\r\n",
)


def _lines(text: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in text.splitlines()]
    for line in lines:
        assert list(line)[:3] == ["time", "level", "logger"]
    return lines


def _abuse(address: str, rest_port: int) -> None:
    with grpc.insecure_channel(address) as channel:
        for path in UNARY:
            with pytest.raises(grpc.RpcError):
                channel.unary_unary(path)(b"\xff\xff", timeout=20)
        for path in STREAMS:
            with pytest.raises(grpc.RpcError):
                list(channel.stream_stream(path)(iter([b"\xff\xff"]), timeout=5))
    for content in HTTP:
        with socket.create_connection(("127.0.0.1", rest_port), timeout=20) as connection:
            connection.sendall(content)
            assert b" 4" in connection.recv(1000)
    with contextlib.closing(socket.create_connection(("127.0.0.1", int(address[-5:])))) as other:
        other.sendall(HTTP[0])


def test_every_line_is_json(tmp_path: Path, base_path: Path) -> None:
    log = tmp_path / "log"
    options = {"access_log": True, "log_format": "json", "rest_api_port": free_port()}
    server = Command(log, model_base_path=base_path, **options)
    try:
        while not (listening := LISTENING.search(log.read_text())):
            assert server.process.poll() is None
            time.sleep(0.1)
        _abuse(listening[1], int(listening[2]))
        server.process.terminate()
        output, _ = server.process.communicate(timeout=30)
    finally:
        server.end()
    assert output == ""
    lines = _lines(log.read_text())
    malformed = [line for line in lines if "Malformed request" in line.get("error", "")]
    paths = [path for path in (*UNARY, *STREAMS) if not path.startswith("/no/such")]
    assert [line["api"] for line in malformed] == [path.rpartition("/")[2] for path in paths]
    assert {line["code"] for line in malformed} == {"INTERNAL"}
    assert all("traceback" not in line for line in lines)
    assert "Exception" not in log.read_text(), "of gRPC"


def test_failed_start_is_a_line_of_json(tmp_path: Path) -> None:
    log = tmp_path / "log"
    server = Command(log, model_base_path=tmp_path, log_format="json", port=0)
    output, _ = server.process.communicate(timeout=60)
    assert (output, server.process.returncode) == ("", 2)
    assert "no version" in _lines(log.read_text())[-1]["message"]
