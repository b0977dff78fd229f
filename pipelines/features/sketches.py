"""Quantiles of a column in bounded memory, by a t-digest, which is mergeable and deterministic.

A sketch is the serialized digest, because digests merge differently after serialization; so
sketches of other processes give the same quantiles.
"""

from __future__ import annotations

from collections.abc import Iterable

import datasketches
import numpy as np

_COMPRESSION = 2000  # t-digest's k: an error of rank of 0.1 % on a million log-normal values


def sketch(numbers: np.ndarray) -> bytes:
    """The sketch of some numbers, none of them NaN."""
    digest = datasketches.tdigest_double(_COMPRESSION)
    digest.update(numbers)
    return digest.serialize()


def merged(first: bytes, second: bytes) -> bytes:
    """The sketch of the numbers of two sketches."""
    digest = datasketches.tdigest_double(_COMPRESSION)
    digest.merge(datasketches.tdigest_double.deserialize(first))
    digest.merge(datasketches.tdigest_double.deserialize(second))
    return digest.serialize()


def quantiles(state: bytes, shares: Iterable[float]) -> np.ndarray:
    """The numbers, in float32, with these shares of all below them; none of no numbers."""
    digest = datasketches.tdigest_double.deserialize(state)
    if digest.is_empty():
        return np.empty(0, "float32")
    return np.array([digest.get_quantile(share) for share in shares], "float32")
