"""The body of a request as it was before it was packed."""

from __future__ import annotations

import io
import zlib

from serving.common import errors

LARGE = 2**16  # bytes, of a body or an answer: what C does with them at one go takes up to 10 ms
LIST_BYTES = 16
_GZIP = 31  # zlib's number for it, with the largest window
_STEP = 2**16  # bytes; a thousand times as many may come out of them


def unpacked(body: bytes, encoding: str, max_bytes: int) -> bytes | bytearray:
    """What was sent as `body`; as in TensorFlow Serving, encodings without gzip do not count.

    Raises:
        InvalidArgument: It is no gzip.
        ResourceExhausted: It is larger than `max_bytes`, and was not unpacked any further; or it
            has more lists and objects than so many bytes may have.
    """
    is_packed = body and "gzip" in encoding.lower()
    found = _gunzipped(body, max_bytes) if is_packed else body
    _require_few_lists(found, max_bytes // LIST_BYTES)
    return found


def too_large(max_bytes: int) -> errors.ServingError:
    return errors.ResourceExhausted(
        f"The request's body is larger than {max_bytes} bytes, the most that "
        "`rest_api_max_body_bytes` allows, packed or unpacked. Send fewer rows at once, or use "
        "gRPC, which takes larger requests."
    )


def _require_few_lists(body: bytes | bytearray, most: int) -> None:
    """Raises where an unusual body has more lists and objects than usual ones of the largest size.

    Python's garbage collector goes through all lists at once, and frees them at once.
    """
    if len(body) > LARGE and body.count(b"[") + body.count(b"{") > most:
        raise errors.ResourceExhausted(
            f"The request's body has more than {most} lists and objects, one for each "
            f"{LIST_BYTES} bytes that `rest_api_max_body_bytes` allows. Send fewer rows at once, "
            "or use gRPC, which takes larger requests."
        )


def _gunzipped(packed: bytes, max_bytes: int) -> bytearray:
    source, member, body = io.BytesIO(packed), zlib.decompressobj(_GZIP), bytearray()
    try:
        while not member.eof and (piece := source.read(_STEP)):
            body += member.decompress(piece, max_bytes + 1 - len(body))
            if len(body) > max_bytes:
                raise too_large(max_bytes)
    except zlib.error:
        raise _not_gzip("it is damaged, or was not packed") from None
    if not member.eof:
        raise _not_gzip("its end is missing")
    if member.unused_data or source.read(1):
        raise _not_gzip("there are bytes after its end")
    return body


def _not_gzip(why: str) -> errors.ServingError:
    return errors.InvalidArgument(
        f"The request's body is not what its Content-Encoding, gzip, says: {why}."
    )
