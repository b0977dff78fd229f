"""Bytes for either port that are no proper HTTP: garbage, half requests, senders that stall."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np

from tests.serving.fuzz.cases import Case, Way
from tests.serving.fuzz.http import request
from tests.serving.fuzz.messages import pick

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _WINDOW, _CONTINUATION = 0, 1, 3, 4, 6, 8, 9
_END_STREAM, _END_HEADERS = 1, 4
_PREDICT = "/tensorflow.serving.PredictionService/Predict"
_POST = "/v1/models/tiny:predict"
_ODD_METADATA = (
    ("x-request-id", b"\xff\xfe"), ("x-request-id", b"a\nb"), ("x-request-id", b"\x00"),
    ("x-request-id", b""), ("x-request-id", b"a" * 4000), ("grpc-timeout", b"1"),
    ("grpc-timeout", b"99999999H"), ("grpc-timeout", b"-1S"), ("grpc-timeout", b"0n"),
    ("grpc-encoding", b"gzip"), ("grpc-encoding", b"nonsense"), ("content-type", b"text/html"),
    ("te", b"gzip"), ("x-bin", b"!!!"), ("X-Upper", b"a"), ("authorization", b"Bearer \xff"),
    (":path", b"/"), (":path", b"/\xff/\xfe"), (":path", b""), (":authority", b"\xff"), ("", b"a"),
    ("grpc-accept-encoding", b"\xff"), ("x-flood", b"a" * 15_000),
)  # fmt: skip


def make_stream(rng: np.random.Generator) -> Case:
    """A connection of a random kind."""
    kind = pick(rng, sorted(_KINDS))
    way = Way.TO_GRPC if kind.startswith("h2") else Way.TO_HTTP
    lingers = "stall" in kind or rng.random() < 0.1
    return Case(kind, way, _KINDS[kind](rng), lingers=lingers)


def frame(kind: int, flags: int, stream: int, content: bytes, length: int | None = None) -> bytes:
    """An HTTP/2 frame, whose length may lie."""
    size = len(content) if length is None else length
    return struct.pack(">I", size & 0xFFFFFF)[1:] + bytes([kind & 255, flags & 255]) + struct.pack(
        ">I", stream & 0xFFFFFFFF
    ) + content  # fmt: skip


def call_of(path: str, *more: tuple[str, bytes], stream: int = 1, flags: int = 4) -> bytes:
    """The headers of a call: literals that no table remembers."""
    fields = [
        (":method", b"POST"), (":scheme", b"http"), (":path", path.encode()),
        (":authority", b"localhost"), ("content-type", b"application/grpc"), ("te", b"trailers"),
    ]  # fmt: skip
    given = {name for name, _ in more}
    block = b"".join(
        b"\x00" + _text(name.encode()) + _text(value)
        for name, value in [*(field for field in fields if field[0] not in given), *more]
    )
    return frame(_HEADERS, flags, stream, block)


def _text(content: bytes) -> bytes:
    """A string of HPACK, not compressed."""
    size = len(content)
    if size < 127:
        return bytes([size]) + content
    size -= 127
    found = bytearray([127])
    while size >= 128:
        found.append(size & 127 | 128)
        size >>= 7
    return bytes([*found, size]) + content


def message_of(content: bytes, length: int | None = None, compressed: int = 0) -> bytes:
    """A gRPC message in a frame that ends the stream; its length may lie."""
    size = len(content) if length is None else length
    return frame(_DATA, _END_STREAM, 1, bytes([compressed]) + struct.pack(">I", size) + content)


_START = PREFACE + frame(_SETTINGS, 0, 0, b"")


def _garbage(rng: np.random.Generator) -> bytes:
    start = pick(
        rng, (b"", PREFACE[:10], PREFACE, _START, b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01")
    )
    return start + rng.bytes(pick(rng, (0, 1, 9, 100, 5000)))


def _frames(rng: np.random.Generator) -> bytes:
    """Frames of any kind, with any flags and lengths."""
    found = _START + (call_of(_PREDICT) if rng.random() < 0.5 else b"")
    for _ in range(int(rng.integers(1, 20))):
        content = rng.bytes(pick(rng, (0, 1, 4, 5, 6, 8, 40)))
        length = pick(rng, (None, None, None, 0, 1, 2**14 + 1, 2**24 - 1))
        stream = pick(rng, (0, 1, 1, 2, 3, 2**31 - 1, 2**31))
        found += frame(int(rng.integers(12)), pick(rng, (0, 1, 4, 5, 255)), stream, content, length)
    return found


def _flood(rng: np.random.Generator) -> bytes:
    """Many frames that cost the sender little."""
    kind = int(rng.integers(6))
    if kind == 0:
        return _START + frame(_PING, 0, 0, b"12345678") * 500
    if kind == 1:
        return _START + frame(_SETTINGS, 0, 0, b"\x00\x04\x7f\xff\xff\xff") * 200
    if kind == 2:
        return _START + b"".join(
            call_of(_PREDICT, stream=i) + frame(_RESET, 0, i, b"\x00\x00\x00\x08")
            for i in range(1, 200, 2)
        )
    if kind == 3:
        return _START + call_of(_PREDICT, flags=0) + frame(_CONTINUATION, 0, 1, b"") * 2000
    if kind == 4:
        return _START + frame(_WINDOW, 0, 0, struct.pack(">I", pick(rng, (0, 2**31 - 1)))) * 3
    return _START + b"".join(call_of("/none", stream=i) for i in range(1, 400, 2))


def _metadata(rng: np.random.Generator) -> bytes:
    """A whole call with odd metadata."""
    return _START + call_of(_PREDICT, pick(rng, _ODD_METADATA)) + message_of(b"")


def _message(rng: np.random.Generator) -> bytes:
    """A call whose message is not as long as it says, or not compressed as it says."""
    length = pick(rng, (None, 0, 1, 100, 2**31 - 1, 2**32 - 1))
    content = rng.bytes(pick(rng, (0, 5, 50)))
    encoding = (("grpc-encoding", pick(rng, (b"gzip", b"deflate", b"identity"))),)
    return _START + call_of(_PREDICT, *encoding) + message_of(content, length, int(rng.integers(3)))


def _stalled_call(rng: np.random.Generator) -> bytes:
    """A call that stops somewhere."""
    whole = _START + call_of(_PREDICT) + message_of(b"\x0a\x06\x0a\x04tiny")
    return whole[: int(rng.integers(len(whole)))]


def _http_garbage(rng: np.random.Generator) -> bytes:
    start = pick(
        rng, (b"", b"POST ", b"GET / HTTP/9.9\r\n\r\n", PREFACE, b"\x16\x03\x01\x02\x00", b"\r\n")
    )
    return start + rng.bytes(pick(rng, (1, 20, 1000, 100_000)))


def _http_lengths(rng: np.random.Generator) -> bytes:
    length = pick(
        rng, ("-1", "+5", "1e3", "0x10", "", "a", "9" * 30, "5, 5", "5\r\nContent-Length: 6")
    )
    return request("POST", _POST, b"{}", f"Content-Length: {length}")


def _http_chunks(rng: np.random.Generator) -> bytes:
    head = request("POST", _POST, b"", "Transfer-Encoding: chunked", framed=False)
    chunks = (
        b"zz\r\n", b"-1\r\n{}\r\n", b"5\r\n{}\r\n0\r\n\r\n", b"2\r\n{}\r\n0\r\n\r\n",
        b"2;a=b\r\n{}\r\n",
        b"ffffffffffffffffff\r\n{}", b"0\r\nX: " + b"a" * 100_000, b"1\r\n{\r\n" * 2000, b"2\n{}\n",
    )  # fmt: skip
    return head + pick(rng, chunks)


def _http_headers(rng: np.random.Generator) -> bytes:
    """Too many headers, too long ones, or what no header may look like."""
    lines = (
        b"X-%d: a\r\n" * 5000, b"X: " + b"a" * 70_000, b" folded: a\r\n",
        b"no colon\r\n", b": a\r\n",
        b"X : a\r\n", b"X: a\x00b\r\n", b"X: a\rb\r\n", b"\xff: a\r\n", b"Host: b\r\n",
    )  # fmt: skip
    line = pick(rng, lines)
    return b"POST " + _POST.encode() + b" HTTP/1.1\r\nHost: a\r\n" + line + b"\r\n"


def _http_stall(rng: np.random.Generator) -> bytes:
    """A request that stops in its head or in its body."""
    whole = request("POST", _POST, b'{"instances": [1.5]}')
    return whole[: int(rng.integers(len(whole)))]


def _http_pipeline(rng: np.random.Generator) -> bytes:
    """Requests behind each other, with garbage between some."""
    parts = (request("GET", "/healthz"), request("POST", _POST, b"{}"), b"\r\n", b"garbage\r\n\r\n")
    return b"".join(pick(rng, parts) for _ in range(int(rng.integers(2, 12))))


_KINDS: dict[str, Callable[[np.random.Generator], bytes]] = {
    "h2 garbage": _garbage, "h2 frames": _frames, "h2 flood": _flood, "h2 metadata": _metadata,
    "h2 message": _message, "h2 stall": _stalled_call,
    "http garbage": _http_garbage, "http lengths": _http_lengths, "http chunks": _http_chunks,
    "http headers": _http_headers, "http stall": _http_stall, "http pipeline": _http_pipeline,
}  # fmt: skip
