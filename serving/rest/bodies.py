"""The body of a request: unpacked, and parsed as a JSON object."""

from __future__ import annotations

import json
import re
import zlib
from typing import Any

from serving.common import errors
from serving.rest.predict_bodies import excerpt

_GZIP = 31  # zlib's number for it, with the largest window
# Matches every escape, so that none is found inside another. The group holds a surrogate without
# its other half, which is no character.
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F]|(u[dD][89a-fA-F])|.)", re.DOTALL
)


def unpacked(body: bytes, encoding: str, max_bytes: int) -> bytes:
    """Returns the body as it was before compression.

    As in TensorFlow Serving, encodings other than gzip are ignored.

    Args:
        body: The body as sent.
        encoding: The `content-encoding` header.
        max_bytes: Largest result; unpacking stops there.

    Raises:
        InvalidArgument: The body is no gzip.
        ResourceExhausted: It is larger than `max_bytes`.
    """
    if not body or "gzip" not in encoding.lower():
        return body
    member = zlib.decompressobj(_GZIP)
    try:
        content = member.decompress(body, max_bytes + 1)
    except zlib.error:
        raise _not_gzip("it is damaged, or was not packed") from None
    if len(content) > max_bytes:
        raise too_large(max_bytes)
    if not member.eof:
        raise _not_gzip("its end is missing")
    if member.unused_data:
        raise _not_gzip("there are bytes after its end")
    return content


def too_large(max_bytes: int) -> errors.ServingError:
    """Returns the error for a body over the limit."""
    return errors.ResourceExhausted(
        f"The request's body is larger than {max_bytes} bytes, the most that "
        "`rest_api_max_body_bytes` allows, packed or unpacked. Send fewer rows at once, or use "
        "gRPC, which takes larger requests."
    )


def _not_gzip(why: str) -> errors.ServingError:
    return errors.InvalidArgument(
        f"The request's body is not what its Content-Encoding, gzip, says: {why}."
    )


def parsed(body: bytes) -> dict[str, Any]:
    """Returns the JSON object of a body.

    Raises:
        InvalidArgument: The body is no JSON object.
    """
    if not body:
        raise errors.InvalidArgument("JSON Parse error: The document is empty")
    try:
        text = body.decode()
        document = json.loads(text)
    except UnicodeError as error:
        raise _no_text() from error
    except (ValueError, RecursionError) as error:
        raise errors.InvalidArgument(f"JSON Parse error: {error}") from error
    if any(escape[1] for escape in _ESCAPE.finditer(text)):
        raise _no_text()
    if not isinstance(document, dict):
        raise errors.InvalidArgument(f"JSON Value: {excerpt(document)} Is not object")
    return document


def _no_text() -> errors.ServingError:
    return errors.InvalidArgument("JSON Parse error: not valid UTF-8")
