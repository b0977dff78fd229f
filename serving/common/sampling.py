"""A sample of the requests: the same one on every server."""

from __future__ import annotations

import hashlib


def is_sampled(request_id: str, rate: float, purpose: str) -> bool:
    """Returns whether a request belongs to the sample, by a hash of its id.

    A sample of a larger rate contains that of a smaller one.

    Args:
        request_id: The id of the request.
        rate: Share of the requests in the sample, 0 to 1.
        purpose: Name of the sample; other names choose other requests.

    >>> is_sampled("any", 1.0, "log"), is_sampled("any", 0.0, "log")
    (True, False)
    """
    digest = hashlib.blake2b(
        request_id.encode(errors="surrogatepass"), digest_size=8, person=purpose.encode()
    ).digest()
    return int.from_bytes(digest, "little") < round(rate * 2**64)
