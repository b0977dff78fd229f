"""Malformed bodies for the REST API."""

from __future__ import annotations

import gzip
import json
from typing import Any

import numpy as np

from tests.serving.fuzz.messages import pick

_BODIES: dict[str, Any] = {
    "predict": {"signature_name": "double", "instances": [1.5, 2.5]},
    "classify": {"signature_name": "classify", "examples": [{"user": "ann", "price": 1.5}]},
    "regress": {
        "signature_name": "regress",
        "context": {"user": "ann"},
        "examples": [{"price": 1.5}, {"price": [2.5]}],
    },
    "rank": {
        "context": {"user": "ann", "history": ["i1", "i2"]},
        "candidates": [{"price": 1.5, "tags": []}, {"price": None, "tags": ["a"]}],
        "rank_by": "click",
        "top_k": 1,
    },
}
_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1e308, -1e308, 1e39, 2**63, -(2**63) - 1, 10**400, "", "a",
    "\ud800", "\udfff a", "\x00", "1", [], {}, [[]], [[], [1]], {"b64": "YQ=="}, {"b64": "?"},
    {"b64": 1}, {"b64": "\ud800"}, {"": 1}, {"\ud800": 1}, {"values": ["NaN"]}, [[[1]]], [1] * 5000,
)  # fmt: skip
_RAW = (
    b"NaN", b"Infinity", b"-Infinity", b"1e999", b"-0", b"1" * 4000, b"1" * 5000, b"0x10", b"'a'",
    b"\xff\xfe", b"\xef\xbb\xbf{}", b"{]", b"", b"{", b'{"a":}', b"\x00", b"[" * 60 + b"]" * 60,
    b"nul", b'"\\ud800"', b'"\\u12"', b'"\xff"', b"{}{}", b"[" * 990 + b"]" * 990, b"[" * 20_000,
)  # fmt: skip


def make_body(rng: np.random.Generator) -> tuple[str, bytes, dict[str, str]]:
    """Returns a method of the model, a malformed body for it, and the headers."""
    method = pick(rng, sorted(_BODIES))
    share = rng.random()
    body = json.dumps(_BODIES[method]).encode()
    if share < 0.5:
        body = _with_other_value(rng, method)
    elif share < 0.75:
        old = pick(rng, (b"1.5", b'"ann"', b"[", b"{", b'"price"'))
        body = body.replace(old, pick(rng, _RAW), 1)
    else:
        changed = bytearray(body if share < 0.9 else gzip.compress(body, mtime=0))
        for _ in range(int(rng.integers(1, 5))):
            changed[int(rng.integers(len(changed)))] = int(rng.integers(256))
        body = bytes(changed[: pick(rng, (len(changed), int(rng.integers(len(changed)))))])
    return method, body, {"Content-Encoding": "gzip"} if share >= 0.9 else {}


def _with_other_value(rng: np.random.Generator, method: str) -> bytes:
    """Returns a valid document with one value anywhere replaced."""
    document = json.loads(json.dumps(_BODIES[method]))
    place = document
    key: Any = pick(rng, sorted(place))
    for _ in range(int(rng.integers(5))):
        inner = place[key]
        if not isinstance(inner, dict | list) or not inner:
            break
        place = inner
        key = pick(rng, sorted(inner)) if isinstance(inner, dict) else int(rng.integers(len(inner)))
    place[key] = pick(rng, _VALUES)
    return json.dumps(document).encode()
