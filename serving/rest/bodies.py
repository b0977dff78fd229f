"""The body of a request, unpacked."""

from __future__ import annotations

import zlib

from serving.common import errors

_GZIP = 31  # zlib's number for it, with the largest window


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
