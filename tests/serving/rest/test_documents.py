"""Bodies become JSON documents."""

from __future__ import annotations

import json

import pytest

from serving.common.errors import InvalidArgument
from serving.rest.documents import parsed


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
