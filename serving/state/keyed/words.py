"""Ragged rows of 64-bit words, packed and unpacked for many keys at once.

The words of a key are its rows of the first section, then those of the second, and so on; the
sections of all keys are moved at once, as a request reads hundreds of small keys.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def pack(counts: np.ndarray, sections: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The words of each key.

    Args:
        counts: `(sections, keys)`, the number of rows of each key in each section.
        sections: `(all rows, words)` each, int64, the rows of the first key first.
    """
    sizes = counts * np.array([section.shape[1] for section in sections])[:, None]
    lengths = sizes.sum(axis=0)
    ends = np.cumsum(lengths)
    if not len(ends):
        return []
    words = np.empty(ends[-1], np.int64)
    words[_places(_starts(sizes, ends - lengths), sizes.ravel())] = np.concatenate(
        [section.ravel() for section in sections]
    )
    return np.split(words, ends[:-1])


def unpack(
    words: np.ndarray,
    start: np.ndarray,
    stops: np.ndarray,
    counts: np.ndarray,
    widths: Sequence[int],
) -> tuple[list[np.ndarray], np.ndarray]:
    """The sections of all keys, `(all rows, words)` each, and the end of each key's sections.

    Args:
        words: Of all keys.
        start: `(keys,)`, the place of each key's first section in `words`.
        stops: `(keys,)`, the place after the last word of each key.
        counts: `(sections, keys)`, the number of rows of each key in each section.
        widths: The words of a row of each section.

    Raises:
        ValueError: There are fewer words than the counts say.
    """
    sizes = counts * np.array(widths)[:, None]
    ends = start + sizes.sum(axis=0)
    if (counts < 0).any() or (ends > stops).any():
        raise ValueError("a key has fewer words than its header says")
    moved = words[_places(_starts(sizes, start), sizes.ravel())]
    borders = [0, *sizes.sum(axis=1).cumsum().tolist()]
    rows = [
        moved[first:stop].reshape(-1, width)
        for first, stop, width in zip(borders, borders[1:], widths, strict=False)
    ]
    return rows, ends


def _starts(sizes: np.ndarray, first: np.ndarray) -> np.ndarray:
    """`(sections * keys,)`, the place of each section of each key."""
    starts: np.ndarray = sizes.cumsum(axis=0) - sizes + first
    return starts.ravel()


def _places(start: np.ndarray, size: np.ndarray) -> np.ndarray:
    """`start[k], start[k] + 1, ...` for each block k, `size[k]` of them."""
    stop = size.cumsum()
    return np.arange(stop[-1]) + (start - stop + size).repeat(size)
