"""Malformed REST requests: whole ones, and bytes that never become one."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.serving.fuzz.cases import Case, Way
from tests.serving.fuzz.messages import pick

_PATH = "/v1/models/tiny"
_BODIES: dict[str, Any] = {
    "predict": {"signature_name": "double", "instances": [1.5, 2.5]},
    "classify": {"signature_name": "classify", "examples": [{"user": "ann", "price": 1.5}]},
    "regress": {
        "signature_name": "regress",
        "context": {"user": "ann"},
        "examples": [{"price": 1.5}, {"price": [2.5]}],
    },
    "rank": {
        "context": {"user": {"strings": {"values": ["ann"]}}},
        "candidates": {"price": {"floats": {"values": [1.5, 2.5]}, "missing": [1]}},
    },
}
_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1e308, -1e308, 1e39, 2**63, -(2**63) - 1, 10**400, "", "a",
    "\ud800", "\udfff a", "\x00", "1", [], {}, [[]], [[], [1]], {"b64": "YQ=="}, {"b64": "?"},
    {"b64": 1}, {"b64": "\ud800"}, {"": 1}, {"\ud800": 1}, {"values": ["NaN"]}, [[[1]]],
)  # fmt: skip
_RAW = (
    b"NaN", b"Infinity", b"-Infinity", b"1e999", b"-0", b"1" * 4000, b"1" * 5000, b"0x10", b"'a'",
    b"\xff\xfe", b"\xef\xbb\xbf{}", b"{]", b"", b"{", b'{"a":}', b"\x00", b"[" * 60 + b"]" * 60,
    b"nul", b'"\\ud800"', b'"\\u12"', b'"\xff"', b"{}{}", b"1" * 400 + b".5e-9",
)  # fmt: skip
_PATHS = (
    "/", "//", "/v1", "/v1/models", "/v1/models/", "/v1/models/tiny/", "/v1/models//metadata",
    "/v1/models/tiny/versions/5", "/v1/models/tiny/versions/\u0665:predict",
    "/v1/models/tiny%2fmetadata",
    "/v1/models/tiny/versions/99999999999999999999", "/v1/models/tiny/versions/" + "9" * 5000,
    "/v1/models/tiny/versions/-1", "/v1/models/tiny/labels/%00",
    "/v1/models/tiny:cla\u017f\u017fify",
    "/v1/models/tiny:REGRESS", "/v1/models/tiny:pred\u0131ct", "/v1/models/../../etc/passwd",
    "/v1/models/%2e%2e/%2e%2e/etc/passwd", "/v1/models/tiny%00", "/v1/models/%ff%fe",
    "/v1/models/tiny?x=" + "a" * 5000, "/v1/models/tiny#a", "/v1/models/tiny;a=b:predict",
    "/v1/models/" + "a" * 9000, "/v1/models/tiny/metadata", "/healthz", "/readyz", "/healthz/",
    "/monitoring/prometheus/metrics", "http://other/v1/models/tiny", "http://[::/v1/models/tiny",
    "*", "/v1/models/tiny:predict:predict", "/v1/models/%ed%a0%80:predict", "/%", "/v1/models/%zz",
)  # fmt: skip
_HEADERS = (
    "Host: [::", "Host: a/b", "Host: a:b:c", "Host: \xe9", "X-Request-Id: \xff\xfe",
    "X-Request-Id: " + "a" * 9000, "X-Request-Id: \ttab", "Authorization: Bearer \xff",
    "Content-Type: text/plain", "Content-Encoding: gzip", "Content-Encoding: br, \xff",
    "Accept-Encoding: *;q=-1", "Transfer-Encoding: gzip", "Expect: 100-continue",
    "Upgrade: websocket\r\nConnection: Upgrade",
    "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABk",
    "Connection: close", "Range: bytes=0-1", "Cookie: " + "a=b; " * 1000, "Content-Length: 5",
    "X-HTTP-Method-Override: DELETE", "X-Forwarded-For: ';--",
)  # fmt: skip
_METHODS = ("HEAD", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PATCH", "get", "FOO", "GET")


def make_http(rng: np.random.Generator) -> Case:
    """A malformed request of a random kind."""
    kind = pick(rng, sorted(_KINDS))
    return _KINDS[kind](rng, f"REST {kind}")


def request(
    method: str, path: str, body: bytes = b"", headers: str = "", framed: bool = True
) -> bytes:
    """The bytes of a request."""
    lines = [f"{method} {path} HTTP/1.1"]
    if "Host:" not in headers:
        lines.append("Host: localhost")
    lines += [headers] if headers else []
    lines += [f"Content-Length: {len(body)}"] if framed and "Content-Length" not in headers else []
    head = "\r\n".join(lines) + "\r\n\r\n"
    return head.encode("latin-1", errors="surrogateescape") + body


def _post(kind: str, method: str, body: bytes) -> Case:
    return Case(kind, Way.HTTP, request("POST", f"{_PATH}:{method}", body))


def _json_value(rng: np.random.Generator, kind: str) -> Case:
    """A valid document with one value anywhere replaced."""
    method = pick(rng, sorted(_BODIES))
    document = json.loads(json.dumps(_BODIES[method]))
    place, depth = document, int(rng.integers(5))
    key: Any = pick(rng, sorted(place))
    for _ in range(depth):
        inner = place[key]
        if not isinstance(inner, dict | list) or not inner:
            break
        place = inner
        key = pick(rng, sorted(inner)) if isinstance(inner, dict) else int(rng.integers(len(inner)))
    if isinstance(place, dict) and rng.random() < 0.2:
        key = pick(rng, ("instances", "inputs", "\ud800", "top_k", "rank_by", "explain", ""))
    place[key] = pick(rng, _VALUES)
    return _post(kind, method, json.dumps(document).encode())


def _json_raw(rng: np.random.Generator, kind: str) -> Case:
    """A document with bytes in it that JSON may not have."""
    method = pick(rng, sorted(_BODIES))
    text = json.dumps(_BODIES[method]).encode()
    if rng.random() < 0.3:
        return _post(kind, method, pick(rng, _RAW))
    old = pick(rng, (b"1.5", b'"ann"', b"[", b"{", b'"price"'))
    return _post(kind, method, text.replace(old, pick(rng, _RAW), 1))


def _json_bytes(rng: np.random.Generator, kind: str) -> Case:
    method = pick(rng, sorted(_BODIES))
    return _post(kind, method, _damaged(rng, json.dumps(_BODIES[method]).encode()))


def _gzip(rng: np.random.Generator, kind: str) -> Case:
    """A packed document, or zeros without end, and often some damage."""
    method = pick(rng, sorted(_BODIES))
    text = json.dumps(_BODIES[method]).encode()
    body = gzip.compress(b"\0" * 20_000_000 if rng.random() < 0.02 else text, mtime=0)
    if rng.random() < 0.8:
        body = _damaged(rng, body)
    headers = "Content-Encoding: gzip"
    return Case(kind, Way.HTTP, request("POST", f"{_PATH}:{method}", body, headers))


def _damaged(rng: np.random.Generator, body: bytes) -> bytes:
    """Some bytes are others, and the end may be missing."""
    found = bytearray(body)
    for _ in range(int(rng.integers(1, 5))):
        found[int(rng.integers(len(found)))] = int(rng.integers(256))
    return bytes(found[: pick(rng, (len(found), int(rng.integers(len(found)))))])


def _nested(rng: np.random.Generator, kind: str) -> Case:
    """Lists or objects in each other, around the depth at which Python gives up."""
    method = pick(rng, sorted(_BODIES))
    depth = pick(rng, (33, 65, 200, *range(900, 1000, 7), 3000, 20_000))
    start, end = pick(rng, ((b"[", b"]"), (b'{"a":', b"}")))
    key = pick(rng, (b"instances", b"inputs", b"examples", b"context", b"candidates", b"other"))
    inner = start * depth + b"1" + end * depth
    if rng.random() < 0.2:
        return _post(kind, method, inner)
    signature = b'"signature_name": "double", ' if method == "predict" else b""
    return _post(kind, method, b"{" + signature + b'"' + key + b'": ' + inner + b"}")


def _many(rng: np.random.Generator, kind: str) -> Case:
    """Many values, and a body that is too large."""
    count = 2_500_000 if rng.random() < 0.02 else pick(rng, (1001, 1001, 5000, 50_000))
    body = b'{"signature_name": "double", "instances": [1' + b",1" * count + b"]}"
    return _post(kind, "predict", body)


def _path(rng: np.random.Generator, kind: str) -> Case:
    method = pick(rng, ("GET", "POST", "POST", *_METHODS))
    body = pick(rng, (b"", b"{}", json.dumps(_BODIES["predict"]).encode()))
    path = pick(rng, _PATHS).encode().decode("latin-1").replace(" ", "%20")
    if rng.random() < 0.3:
        path = "".join(
            f"%{byte:02x}" if byte > 127 else chr(byte) for byte in path.encode("latin-1")
        )
    return Case(kind, Way.HTTP, request(method, path, body))


def _header(rng: np.random.Generator, kind: str) -> Case:
    body = json.dumps(_BODIES["predict"]).encode()
    method = pick(rng, ("POST", "POST", *_METHODS))
    return Case(kind, Way.HTTP, request(method, f"{_PATH}:predict", body, pick(rng, _HEADERS)))


_KINDS: dict[str, Callable[[np.random.Generator, str], Case]] = {
    "value": _json_value, "value again": _json_value, "JSON": _json_raw, "bytes": _json_bytes,
    "nesting": _nested, "size": _many, "path": _path, "header": _header, "gzip": _gzip,
}  # fmt: skip
