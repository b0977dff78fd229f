"""Events that arrive again count once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_SIGN = np.int64(-(2**63))


def is_first(events: np.ndarray, among: np.ndarray) -> np.ndarray:
    """Whether each of some rows is the first of its event.

    Args:
        events: `(rows,)`, equal numbers for equal events; negative: of no other row.
        among: `(rows,)`, the rows that count; False for the others.
    """
    rows = np.flatnonzero(among & (events >= 0))
    first = among & (events < 0)
    first[rows[np.unique(events[rows], return_index=True)[1]]] = True
    return first


def event_numbers(*columns: np.ndarray) -> np.ndarray:
    """`(rows,)`: equal numbers for rows that are equal in all of some columns of integers."""
    table = np.stack(columns, axis=1)
    return np.unique(table, axis=0, return_inverse=True)[1].reshape(-1)


def event_keys(time: np.ndarray, ids: np.ndarray, late: int | float | None) -> list[bytes]:
    """Bucket, time and id of each event as bytes, in whose order older events come first.

    Args:
        time: `(rows,)`, int64 or float64.
        ids: `(rows, 2)`, as `identities` gives them.
        late: The age up to which an event may arrive again, in the unit of the times, and the
            length of a bucket; None: any age, so that one bucket has all.
    """
    bits = time.view(np.int64)
    if time.dtype == np.float64:
        bits = np.where(bits < 0, ~bits ^ _SIGN, bits)
    words = np.stack([_buckets(time, late), bits, *ids.T], axis=1)
    words[:, :2] ^= _SIGN  # as bytes, negative ones come first
    return [row.tobytes() for row in words.astype(">i8")]


def events_of_keys(keys: Sequence[bytes], is_float: bool) -> tuple[np.ndarray, np.ndarray]:
    """Time `(rows,)` and id `(rows, 2)` of events from their bytes, as `event_keys` gives them.

    Args:
        keys: The bytes.
        is_float: Whether times are float64; else they are int64.
    """
    words = np.frombuffer(b"".join(keys), ">i8").reshape(-1, 4).astype(np.int64)
    bits = words[:, 1] ^ _SIGN
    if not is_float:
        return bits, words[:, 2:]
    return np.where(bits < 0, ~(bits ^ _SIGN), bits).view(np.float64), words[:, 2:]


def first_bucket(newest: int | float, late: int | float) -> bytes:
    """The oldest bucket whose events may arrive again: the first 8 bytes of their keys.

    Args:
        newest: Time of the newest event.
        late: As of `event_keys`.
    """
    bucket = _buckets(np.array([newest - late]), late) ^ _SIGN
    return bucket.astype(">i8").tobytes()


def _buckets(time: np.ndarray, late: int | float | None) -> np.ndarray:
    return np.zeros(len(time), np.int64) if late is None else (time // late).astype(np.int64)
