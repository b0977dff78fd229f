"""Faithfulness of relevances: whether they agree with what leaving single units out does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.metrics.intervals import (
    Influence,
    difference,
    interval_of,
    mean_influence,
    ratio_influence,
    with_ends,
)
from pipelines.metrics.midranks import rank_correlation

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
LEAVE_ONE_OUT, ATTENTION, RANDOM = "leave_one_out", "attention", "random"
FEWEST_UNITS = 3  # of a row whose order means something
WEAK = 0.3  # rank correlation, below which no ranking is recommended


def order_agreement(first: Floats, second: Floats, is_unit: Bools) -> Floats:
    """Spearman's rank correlation of each row, over the units that it has.

    Args:
        first: A relevance, (rows, U).
        second: What it should agree with, (rows, U).
        is_unit: The units that a row has, (rows, U).

    Returns:
        (rows,): nan for rows with fewer than 3 units, or where `second` is the same for all of
        them and so has no order; 0 where only `first` is the same for all.

    Example:

    >>> import numpy as np
    >>> from pipelines.audit.faithfulness import order_agreement
    >>> there = np.array([[True, True, True, False]])
    >>> print(order_agreement(np.array([[1.0, 2, 3, 9]]), np.array([[10.0, 20, 0, 5]]), there))
    [-0.5]
    """
    first, second = (np.where(is_unit, order, np.nan) for order in (first, second))
    ordered = ~np.isnan(rank_correlation(second, second)) & (is_unit.sum(axis=1) >= FEWEST_UNITS)
    return np.where(ordered, np.nan_to_num(rank_correlation(first, second)), np.nan)


def faithfulness(
    by_method: Mapping[str, Floats],
    is_unit: Bools,
    curves: Mapping[str, Floats],
    clusters: NDArray[np.intp],
) -> dict[str, Any]:
    """Agreement of relevances with leaving one out, and a verdict.

    Args:
        by_method: Relevances for one task, (rows, U); leaving one out is one of them.
        is_unit: The units that a row has, (rows, U).
        curves: By method and for random order, the losses of `deletion`, (rows, shares).
        clusters: Number of each row's user or request, whose rows depend on each other.

    Returns:
        `methods`, by name without leaving one out: `size`, the mean rank correlation of `|r|` with
        `|lost|`; `signed`, that of r with lost; `deletion`, the area above random order as a share
        of that of leaving one out; each with the ends of its 95 % interval, or None where it is not
        defined. `ordered_rows`, those with a rank correlation. `verdict`: see `verdict`.
    """
    lost = by_method[LEAVE_ONE_OUT]
    relevances = {name: r for name, r in by_method.items() if name != LEAVE_ONE_OUT}
    by_size = {n: order_agreement(np.abs(r), np.abs(lost), is_unit) for n, r in relevances.items()}
    known = ~np.isnan(order_agreement(np.abs(lost), np.abs(lost), is_unit))
    sizes = {name: _mean(values[known], clusters[known]) for name, values in by_size.items()}
    methods = {
        name: {
            "size": _ends(sizes[name]),
            "signed": _ends(_mean(order_agreement(relevance, lost, is_unit), clusters)),
            "deletion": _share(curves, name, clusters),
        }
        for name, relevance in relevances.items()
    }
    return {"ordered_rows": int(known.sum()), "methods": methods, "verdict": verdict(sizes)}


def verdict(sizes: Mapping[str, Influence]) -> dict[str, Any]:
    """Names the relevance to believe, and says whether attention weights alone do as well.

    Args:
        sizes: By method, the mean rank correlation with leaving one out, and its influence.

    Returns:
        `believe`: the method that agrees best, attention only where it is better than all others
        for certain; None if the best does not agree by more than 0.3 for certain. `attention`: how
        attention weights compare with the best of the others, `worse`, `as well` or `better`; None
        without attention. `difference`: what the best of the others is ahead of attention, with
        the ends of its 95 % interval, or None.
    """
    others = {name: size for name, size in sizes.items() if name != ATTENTION}
    best = max(others, key=lambda name: others[name][0])
    said = ahead = None
    if ATTENTION in sizes:
        ahead = difference(others[best], sizes[ATTENTION])
        said = "worse" if ahead.low > 0 else "better" if ahead.high < 0 else "as well"
    first = ATTENTION if said == "better" else best
    ends = _ends(sizes[first])
    if ends is None:  # too few rows
        return {"believe": None, "attention": None, "difference": None}
    return {
        "believe": first if ends[1] > WEAK else None,
        "attention": said,
        "difference": None if ahead is None else with_ends(ahead),
    }


def _mean(values: Floats, clusters: NDArray[np.intp]) -> Influence:
    known = ~np.isnan(values)
    if not known.any():
        return np.nan, np.zeros(0)
    codes = np.unique(clusters[known], return_inverse=True)[1]
    return mean_influence(values[known], codes)


def _share(
    curves: Mapping[str, Floats], method: str, clusters: NDArray[np.intp]
) -> list[float] | None:
    """The area above random order over that of leaving one out."""
    curve, best = ((curves[n] - curves[RANDOM]).mean(axis=1) for n in (method, LEAVE_ONE_OUT))
    if not best.sum() > 0:
        return None
    codes = np.unique(clusters, return_inverse=True)[1]
    return _ends(ratio_influence(curve, best, codes))


def _ends(influence: Influence) -> list[float] | None:
    interval = interval_of(*influence)
    return None if np.isnan(interval.low) else with_ends(interval)
