"""Events that arrive again count once."""

from __future__ import annotations

import numpy as np


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


def event_keys(time: np.ndarray, ids: np.ndarray) -> list[bytes]:
    """Time and id of each event as bytes, in whose order older events come first.

    Args:
        time: `(rows,)`, int64 or float64.
        ids: `(rows, 2)`, as `identities` gives them.
    """
    if time.dtype == np.float64:
        bits = time.view(np.int64)
        bits = np.where(bits < 0, ~bits, bits ^ np.int64(-(2**63)))
    else:
        bits = time.astype(np.int64) ^ np.int64(-(2**63))
    words = np.stack([bits, ids[:, 0], ids[:, 1]], axis=1).astype(">i8")
    return [row.tobytes() for row in words]
