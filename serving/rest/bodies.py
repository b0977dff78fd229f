"""The body of a request as it was before it was packed."""

from __future__ import annotations

import io
import zlib

from serving import errors

_GZIP = 31  # zlib's number for it, with the largest window
_MOST_BYTES = 100 * 2**20  # as in TensorFlow Serving: a packed body may be a thousandth of it
_STEP = 2**16  # bytes; a thousand times as many may come out of them


def unpacked(body: bytes, encoding: str, max_bytes: int) -> bytes | bytearray:
    """What was sent as `body`; as in TensorFlow Serving, encodings without gzip do not count.

    Raises:
        InvalidArgument: It is no gzip.
        ResourceExhausted: It is larger than `max_bytes`, and was not unpacked any further.
    """
    if not body or "gzip" not in encoding.lower():
        return body
    return _gunzipped(body, min(max_bytes, _MOST_BYTES))


def too_large(max_bytes: int) -> errors.ServingError:
    return errors.ResourceExhausted(f"The request's body is larger than {max_bytes} bytes.")


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
