"""Joins the arrays of several requests, and splits those of large ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from serving.common.request import Arrays


def bucket(size: int) -> int:
    """Returns the next power of two, by which lengths are grouped before they are padded."""
    return 1 << max(size - 1, 0).bit_length()


def merge(
    requests: Sequence[Arrays], fill: Callable[[np.ndarray], object]
) -> dict[str, np.ndarray]:
    """Concatenates the rows of all requests, by input.

    Args:
        requests: Arrays by input name.
        fill: Returns the padding of the axes after the first, from the first array.
    """
    if len(requests) == 1:
        return dict(requests[0])
    return {
        name: np.concatenate(_aligned([request[name] for request in requests], fill))
        for name in requests[0]
    }


def _aligned(
    arrays: Sequence[np.ndarray], fill: Callable[[np.ndarray], object]
) -> Sequence[np.ndarray]:
    shapes = {array.shape[1:] for array in arrays}
    if len(shapes) == 1:
        return arrays
    shape = tuple(max(sizes) for sizes in zip(*shapes, strict=True))
    return [_padded(array, (len(array), *shape), fill(arrays[0])) for array in arrays]


def _padded(array: np.ndarray, shape: tuple[int, ...], fill: object) -> np.ndarray:
    if array.shape == shape:
        return array
    padded = np.full(shape, fill, array.dtype)
    padded[tuple(slice(size) for size in array.shape)] = array
    return padded


def fill_rows(arrays: Arrays, rows: int) -> dict[str, np.ndarray]:
    """Repeats the last row of the arrays, up to a number of rows."""
    return {
        name: np.concatenate([array, np.repeat(array[-1:], rows - len(array), axis=0)])
        for name, array in arrays.items()
    }


def chunks(
    arrays: Arrays, names: Sequence[str], axis: int, size: int
) -> list[dict[str, np.ndarray]]:
    """Splits the arrays of `names` along an axis; every chunk has the other arrays unsplit."""
    total = arrays[names[0]].shape[axis]
    parts = []
    for start in range(0, total, size):
        cut = (slice(None),) * axis + (slice(start, start + size),)
        parts.append({n: a[cut] if n in names else a for n, a in arrays.items()})
    return parts


def join(results: Sequence[Arrays], axis: int) -> dict[str, np.ndarray]:
    """Joins the results of chunks."""
    if len(results) == 1:
        return dict(results[0])
    return {name: np.concatenate([r[name] for r in results], axis) for name in results[0]}
