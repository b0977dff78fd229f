"""Bodies, packed or not, up to the limit; they become JSON documents."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import json
import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest

from serving.common.errors import InvalidArgument, ResourceExhausted
from serving.rest.bodies import parsed, unpacked
from serving.rest.http_server import RestServer
from tests.serving.rest.conftest import Ask


def packed(body: bytes) -> bytes:
    return gzip.compress(body, mtime=0)


BODY = json.dumps({"signature_name": "double", "instances": [1.5]}).encode()
PACKED = packed(BODY)
PREDICT = "/v1/models/tiny:predict"
LARGE = np.random.default_rng(0).bytes(300_000)  # does not shrink


@pytest.mark.parametrize("body", [b"{}", b"", LARGE, b" " * 1_000_000], ids=len)
def test_body_of_the_limit_is_unpacked(body: bytes) -> None:
    assert unpacked(packed(body), "gzip", len(body)) == body
    if body:
        with pytest.raises(ResourceExhausted, match=f"larger than {len(body) - 1} bytes"):
            unpacked(packed(body), "gzip", len(body) - 1)


def test_bomb_is_not_unpacked_beyond_the_limit() -> None:
    bomb = packed(b"\0" * 50_000_000)
    tracemalloc.start()
    with pytest.raises(ResourceExhausted):
        unpacked(bomb, "gzip", 10_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000


def test_damaged_or_continued_gzip_is_rejected() -> None:
    whole = packed(LARGE)
    for size in (1, 100_000):
        with pytest.raises(InvalidArgument, match="after its end"):
            unpacked(whole + b"\0" * size, "gzip", len(LARGE))
    with pytest.raises(InvalidArgument, match="it is damaged"):
        unpacked(whole[:-1] + bytes([whole[-1] ^ 1]), "gzip", len(LARGE))


@pytest.mark.parametrize(
    ("encoding", "body"),
    [("gzip", PACKED), ("GZip", PACKED), ("x-gzip", PACKED), ("utf-8", BODY), ("", BODY)],
    ids=["gzip", "GZip", "x-gzip", "other", "none"],
)
def test_gzip_is_known_by_its_header(ask: Ask, encoding: str, body: bytes) -> None:
    found = ask("POST", PREDICT, body, headers={"Content-Encoding": encoding})
    assert found == (200, {"predictions": [3.0]})


@pytest.mark.parametrize(
    ("encoding", "body", "status", "words"),
    [
        ("gzip", PACKED[:-1], 400, "gzip, says: its end is missing"),
        ("gzip", BODY, 400, "it is damaged, or was not packed"),
        ("gzip", packed(b" " * 1_000_000), 429,
         "body is larger than 10000 bytes, the most that `rest_api_max_body_bytes` allows"),
        ("gzip", b"", 400, "JSON Parse error: The document is empty"),
    ],
    ids=["cut", "plain", "bomb", "empty"],
)  # fmt: skip
def test_unreadable_gzip_is_an_error(
    ask: Ask, encoding: str, body: bytes, status: int, words: str
) -> None:
    headers = {"Content-Encoding": encoding}
    found, document = ask("POST", PREDICT, body, headers=headers)
    assert (found, set(document)) == (status, {"error"})
    assert words in document["error"]


@pytest.mark.parametrize(("size", "status"), [(10_000, 200), (10_001, 429)])
@pytest.mark.parametrize("has_length", [True, False], ids=["length", "chunked"])
def test_limit_holds_with_and_without_content_length(
    rest: Callable[..., RestServer], has_length: bool, size: int, status: int
) -> None:
    body = BODY + b" " * (size - len(BODY))
    chunks = body if has_length else iter([body[:5000], body[5000:]])
    connection = http.client.HTTPConnection("127.0.0.1", rest().port, timeout=10)
    connection.request("POST", PREDICT, chunks)
    with contextlib.closing(connection), connection.getresponse() as response:
        assert response.status == status
        text = response.read().decode()
    assert status == 200 or "use gRPC, which takes larger requests" in text


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "The document is empty"),
        (b"[", "Expecting value"),
        (b'{"a": 1 "b": 2}', "Expecting ',' delimiter"),
        (b"1" * 5000, "Exceeds the limit"),
        (b"[" * 100_000, "maximum recursion depth"),
        (b'{"a":' * 100_000, "maximum recursion depth"),
        (b'{"a": "\xff"}', "not valid UTF-8"),
    ],
    ids=lambda value: str(value[:20]),
)
def test_body_that_is_no_json_is_rejected(body: bytes, message: str) -> None:
    with pytest.raises(InvalidArgument, match=f"JSON Parse error: .*{message}"):
        parsed(body)


@pytest.mark.parametrize("body", [b"[]", b"1", b"null", b'"a"'])
def test_body_that_is_no_object_is_rejected(body: bytes) -> None:
    with pytest.raises(InvalidArgument, match="Is not object"):
        parsed(body)


@pytest.mark.parametrize(
    ("text", "is_valid"),
    [
        (r"\ud83d\ude00", True),
        (r"\uD83D\uDE00\ud83d\ude00", True),
        (r"\\ud83d", True),  # a backslash and letters
        (r"\\\\udc00", True),
        (r"\ud83d", False),
        (r"\ude00", False),
        (r"\ude00\ud83d", False),
        (r"\ud83d\ud83d\ude00", False),
        (r"\ud83d\ude00\ude00", False),
        (r"\ud83d\\ude00", False),
        (r"\\\ud83d", False),
        (r"\\ud83d\ude00", False),
        (r"\ud83d\n", False),
    ],
)
def test_lone_surrogate_is_no_character(text: str, is_valid: bool) -> None:
    body = f'{{"value": "{text}"}}'.encode()
    if is_valid:
        json.dumps(parsed(body), ensure_ascii=False).encode()
    else:
        with pytest.raises(InvalidArgument, match="JSON Parse error: not valid UTF-8"):
            parsed(body)
