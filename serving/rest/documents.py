"""A body's JSON, as Python's values, and back.

While C reads or writes JSON, no other thread of the process runs: health would wait for one large
body. Of a large one C is therefore given a piece at a time.
"""

from __future__ import annotations

import json
import re
from json import JSONDecodeError
from typing import Any

from serving.common import errors
from serving.rest.bodies import LARGE
from serving.rest.tensors import shown

_PIECE = 2**12  # characters
_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\n\r]*")
_BETWEEN = re.compile(r"[ \t\n\r]*([,}\]])[ \t\n\r]*")
# Every escape, so that none is looked for inside another. A surrogate that has no other half, which
# is no character, is in the group.
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F]|(u[dD][89a-fA-F])|.)", re.DOTALL
)


def parsed(body: bytes | bytearray) -> dict[str, Any]:
    """The object that a body holds.

    Raises:
        InvalidArgument: It holds none.
    """
    if not body:
        raise errors.InvalidArgument("JSON Parse error: The document is empty")
    try:
        text = body.decode()
        document = json.loads(text) if len(text) <= LARGE else _whole(text)
    except UnicodeError as error:
        raise _no_text() from error
    except (ValueError, RecursionError) as error:
        raise errors.InvalidArgument(f"JSON Parse error: {error}") from error
    if any(escape[1] for escape in _ESCAPE.finditer(text)):
        raise _no_text()
    if not isinstance(document, dict):
        raise errors.InvalidArgument(f"JSON Value: {shown(document)} Is not object")
    return document


def written(document: Any, *, is_large: bool) -> str:
    """A document as JSON."""
    return "".join(json.JSONEncoder().iterencode(document)) if is_large else json.dumps(document)


def _no_text() -> errors.ServingError:
    return errors.InvalidArgument("JSON Parse error: not valid UTF-8")


def _whole(text: str) -> Any:
    """What `json.loads` returns."""
    value, end = _value(text, _skipped(text, 0))
    end = _skipped(text, end)
    if end < len(text):
        raise JSONDecodeError("Extra data", text, end)
    return value


def _value(text: str, start: int) -> tuple[Any, int]:
    """The value that starts there, and its end."""
    first = text[start : start + 1]
    if first not in ("[", "{"):
        return _DECODER.raw_decode(text, start)
    try:
        value, length = _DECODER.raw_decode(text[start : start + _PIECE])
    except JSONDecodeError:  # it does not end in this piece
        return (_array if first == "[" else _object)(text, start + 1)
    return value, start + length


def _array(text: str, start: int) -> tuple[list[Any], int]:
    values: list[Any] = []
    end = _skipped(text, start)
    if text.startswith("]", end):
        return values, end + 1
    while True:
        value, end = _value(text, end)
        values.append(value)
        end, is_last = _next(text, end, "]")
        if is_last:
            return values, end


def _object(text: str, start: int) -> tuple[dict[str, Any], int]:
    values: dict[str, Any] = {}
    end = _skipped(text, start)
    if text.startswith("}", end):
        return values, end + 1
    while True:
        if not text.startswith('"', end):
            raise JSONDecodeError("Expecting property name enclosed in double quotes", text, end)
        name, end = _DECODER.raw_decode(text, end)
        end = _skipped(text, end)
        if not text.startswith(":", end):
            raise JSONDecodeError("Expecting ':' delimiter", text, end)
        values[name], end = _value(text, _skipped(text, end + 1))
        end, is_last = _next(text, end, "}")
        if is_last:
            return values, end


def _next(text: str, end: int, closing: str) -> tuple[int, bool]:
    """Where the next value starts; after the last one, where the list or object ends."""
    found = _BETWEEN.match(text, end)
    if found is None or found[1] not in (",", closing):
        raise JSONDecodeError("Expecting ',' delimiter", text, _skipped(text, end))
    return found.end(), found[1] == closing


def _skipped(text: str, start: int) -> int:
    """Where white space ends."""
    found = _SPACE.match(text, start)
    return start if found is None else found.end()
