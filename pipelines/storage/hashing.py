"""A hash of values that is the same on every machine and in every run."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_FNV_OFFSET = np.uint64(0xCBF29CE484222325)
_FNV_PRIME = np.uint64(0x100000001B3)


def mix(values: np.ndarray) -> np.ndarray:
    """Scatters 64-bit integers (the finaliser of SplitMix64; Steele et al., 2014)."""
    x = values.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def hash_column(column: pa.ChunkedArray, seed: int) -> np.ndarray:
    """One uint64 per value: integers by value, everything else by its text; null is one value.

    Returns:
        uint64 array of the column's length.
    """
    salt = mix(np.array([seed], np.uint64))
    if pa.types.is_integer(column.type):
        # Every integer is below 2**63 or above it in one way only, so wrapping keeps them apart.
        numbers = pc.fill_null(column, 0).to_numpy().astype(np.uint64)
        hashed = np.where(column.is_null().to_numpy(), np.uint64(1), mix(numbers))
    else:
        kind = pa.large_binary() if pa.types.is_binary(column.type) else pa.large_string()
        texts = pc.fill_null(column.cast(kind), pa.scalar("").cast(kind))
        hashed = _hash_text(texts.combine_chunks())
    return mix(hashed ^ salt)


def uniform(hashed: np.ndarray) -> np.ndarray:
    """Numbers in [0, 1) from hashes."""
    return (hashed >> np.uint64(11)).astype(np.float64) / 2.0**53


def _hash_text(texts: pa.Array) -> np.ndarray:
    """FNV-1a of every text's bytes, one byte position of all texts at a time."""
    hashed = np.full(len(texts), _FNV_OFFSET)
    if not len(texts):
        return hashed
    _, offset_buffer, data_buffer = texts.buffers()
    window = slice(texts.offset, texts.offset + len(texts) + 1)
    offsets = np.frombuffer(offset_buffer, np.int64)[window]
    data = np.frombuffer(data_buffer or b"", np.uint8)
    lengths = np.diff(offsets)
    for position in range(int(lengths.max())):
        longer = np.flatnonzero(lengths > position)
        byte = data[offsets[longer] + position].astype(np.uint64)
        hashed[longer] = (hashed[longer] ^ byte) * _FNV_PRIME
    return hashed
