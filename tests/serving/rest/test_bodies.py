"""Packed bodies become what they were, and no larger than they may."""

from __future__ import annotations

import gzip
import json
import tracemalloc

import numpy as np
import pytest

from serving.errors import InvalidArgument, ResourceExhausted
from serving.rest.bodies import unpacked
from tests.serving.rest.conftest import Ask


def packed(body: bytes) -> bytes:
    return gzip.compress(body, mtime=0)  # which is in it


BODY = json.dumps({"signature_name": "double", "instances": [1.5]}).encode()
PACKED = packed(BODY)
PREDICT = "/v1/models/tiny:predict"
LARGE = np.random.default_rng(0).bytes(300_000)  # of several steps, since it does not shrink


@pytest.mark.parametrize("body", [b"{}", b"", LARGE, b" " * 1_000_000], ids=len)
def test_a_body_of_the_limit_is_itself_again(body: bytes) -> None:
    assert unpacked(packed(body), "gzip", len(body)) == body
    if body:
        with pytest.raises(ResourceExhausted, match=f"larger than {len(body) - 1} bytes"):
            unpacked(packed(body), "gzip", len(body) - 1)


def test_a_bomb_is_not_unpacked_beyond_the_limit() -> None:
    bomb = packed(b"\0" * 50_000_000)
    tracemalloc.start()
    with pytest.raises(ResourceExhausted):
        unpacked(bomb, "gzip", 10_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000


def test_any_piece_of_a_body_is_refused() -> None:
    whole = packed(b'{"instances": [1.5]}')
    for size in range(1, len(whole)):
        with pytest.raises(InvalidArgument, match="its end is missing"):
            unpacked(whole[:size], "gzip", 100)


def test_any_other_byte_at_the_end_is_refused() -> None:
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
def test_a_body_may_be_gzip(ask: Ask, encoding: str, body: bytes) -> None:
    found = ask("POST", PREDICT, body, headers={"Content-Encoding": encoding})
    assert found == (200, {"predictions": [3.0]})


@pytest.mark.parametrize(
    ("encoding", "body", "status", "words"),
    [
        ("gzip", PACKED[:-1], 400, "gzip, says: its end is missing"),
        ("gzip", BODY, 400, "it is damaged, or was not packed"),
        ("gzip", packed(b" " * 1_000_000), 429, "body is larger than 10000 bytes."),
        ("gzip", b"", 400, "JSON Parse error: The document is empty"),
    ],
    ids=["cut", "plain", "bomb", "empty"],
)
def test_a_packed_body_that_cannot_be_read_says_why(
    ask: Ask, encoding: str, body: bytes, status: int, words: str
) -> None:
    headers = {"Content-Encoding": encoding}
    found, document = ask("POST", PREDICT, body, headers=headers)
    assert (found, set(document)) == (status, {"error"})
    assert words in document["error"]
