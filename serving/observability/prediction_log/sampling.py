"""Which requests are kept: the same ones on every server of a fleet."""

from __future__ import annotations

import hashlib


class Sample:
    """A share of all requests, chosen by a hash of their ids.

    Args:
        rate: Share of the requests that are kept, 0 to 1.
        seed: Another seed keeps others; servers of one seed keep the same.

    >>> Sample(1.0, 0).keeps("any"), Sample(0.0, 0).keeps("any")
    (True, False)
    """

    def __init__(self, rate: float, seed: int) -> None:
        self._below = round(rate * 2**64)
        self._key = seed.to_bytes(8, "little", signed=True)

    def keeps(self, request_id: str) -> bool:
        """Whether the request of this id is kept."""
        digest = hashlib.blake2b(
            request_id.encode(errors="surrogatepass"), digest_size=8, key=self._key
        ).digest()
        return int.from_bytes(digest, "little") < self._below
