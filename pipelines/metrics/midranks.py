"""Ranks of the values of each row of an array."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def midranks(values: NDArray[Any]) -> NDArray[np.float64]:
    """Ranks 1, 2, ... along the last axis; equal values share the mean of their ranks.

    NaN takes no rank, and is NaN.

    Example:
        >>> import numpy as np
        >>> from pipelines.metrics.midranks import midranks
        >>> print(midranks(np.array([[5.0, 3.0, 5.0], [1.0, np.nan, 0.0]])))
        [[2.5 1.  2.5]
         [2.  nan 1. ]]
    """
    rows = np.asarray(values, np.float64).reshape(-1, values.shape[-1])
    order = np.argsort(rows, axis=1, kind="stable")
    ordered = np.take_along_axis(rows, order, axis=1)
    begins = np.ones(rows.shape, bool)
    begins[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    run = np.cumsum(begins.ravel()) - 1  # over all rows, as each row begins one
    place = np.tile(np.arange(1.0, rows.shape[1] + 1), len(rows))
    mean = np.bincount(run, place) / np.bincount(run)
    ranks = np.empty_like(rows)
    np.put_along_axis(ranks, order, mean[run].reshape(rows.shape), axis=1)
    ranks[np.isnan(rows)] = np.nan
    return ranks.reshape(values.shape)


def rank_correlation(first: NDArray[Any], second: NDArray[Any]) -> NDArray[np.float64]:
    """Spearman's correlation of two arrays along the last axis, NaN where one is constant.

    Places where one of them is NaN do not count.

    Example:
        >>> import numpy as np
        >>> from pipelines.metrics.midranks import rank_correlation
        >>> float(rank_correlation(np.array([1, 2, 3]), np.array([10, 30, 20])))
        0.5
    """
    left = np.asarray(np.broadcast_to(first, np.broadcast_shapes(first.shape, second.shape)))
    right = np.asarray(np.broadcast_to(second, left.shape))
    is_missing = np.isnan(left) | np.isnan(right)
    ranks = [midranks(np.where(is_missing, np.nan, values)) for values in (left, right)]
    counts = np.maximum((~is_missing).sum(axis=-1, keepdims=True), 1)
    apart = [
        np.nan_to_num(values - np.nansum(values, axis=-1, keepdims=True) / counts)
        for values in ranks
    ]
    scale = np.sqrt(np.prod([np.square(values).sum(axis=-1) for values in apart], axis=0))
    product = (apart[0] * apart[1]).sum(axis=-1)
    return np.divide(product, scale, out=np.full(scale.shape, np.nan), where=scale > 0)
