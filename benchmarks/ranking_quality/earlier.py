"""Counts of earlier labels by key, for target encodings without leakage."""

from __future__ import annotations

import numpy as np


def earlier_counts(
    codes: np.ndarray, time: np.ndarray, label: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Positive and known labels of strictly earlier rows with the same code."""
    order = np.lexsort((time, codes))
    key, moment, y = codes[order], time[order], label[order]
    known = ~np.isnan(y)
    new_key = np.r_[True, key[1:] != key[:-1]]
    new = new_key | np.r_[True, moment[1:] != moment[:-1]]
    begin = np.maximum.accumulate(np.where(new, np.arange(len(key)), 0))
    first = np.maximum.accumulate(np.where(new_key, np.arange(len(key)), 0))
    sums = []
    for values in (np.nan_to_num(y), known.astype(float)):
        before = np.cumsum(values) - values
        result = np.empty(len(key))
        result[order] = before[begin] - before[first]
        sums.append(result)
    return sums[0], sums[1]
