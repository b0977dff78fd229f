"""Metrics that only see the order of the scores: AUC, GAUC, the ROC curve."""

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipelines.metrics.metric_inputs import ONE_CLASS, Floats, check_pairs, group_codes, undefined
from pipelines.metrics.ranked import LabelCounts, Ranked, run_starts, run_sums

_SIDES: tuple[Literal["left", "right"], ...] = ("left", "right")
_PART = 2**18  # positives that are looked up at a time


class RocCurve(NamedTuple):
    """Rates at falling thresholds, from (0, 0) to (1, 1)."""

    false_positive_rate: Floats
    true_positive_rate: Floats


def auc(labels: ArrayLike, scores: ArrayLike) -> float:
    """Area under the ROC curve, exact; equal scores count as half a won pair.

    `auc = P(score of a positive > score of a negative) + P(equal) / 2`

    Args:
        labels: 0 or 1 per row, shape (rows,).
        scores: A finite or infinite number per row, shape (rows,).

    Returns:
        A number in [0, 1]; nan with a warning unless both classes are present.

    Raises:
        ValueError: Shapes differ, a label is neither 0 nor 1, or a score is nan.

    Example:
        >>> auc([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
        0.75
    """
    return LabelCounts.of(*check_pairs(labels, scores)).auc


def auc_by_class(positive: NDArray[Any], negative: NDArray[Any]) -> float:
    """The AUC from the scores of each class; needs little memory beside them.

    Args:
        positive: Scores of the rows of label 1, shape (positives,).
        negative: Those of label 0, shape (negatives,); it is sorted in place.

    Returns:
        A number in [0, 1]; nan with a warning if a class has no rows.

    Example:
        >>> auc_by_class(np.array([0.35, 0.8]), np.array([0.1, 0.4]))
        0.75
    """
    pairs = positive.size * negative.size
    if not pairs:
        return undefined("AUC", ONE_CLASS)
    negative.sort()
    parts = [positive[start : start + _PART] for start in range(0, positive.size, _PART)]
    won = sum(int(negative.searchsorted(part, side).sum()) for part in parts for side in _SIDES)
    return won / 2 / pairs


def gauc(labels: ArrayLike, scores: ArrayLike, groups: ArrayLike) -> tuple[float, int]:
    """AUC within each group, averaged with the groups' numbers of rows as weights.

    `gauc = sum_g rows_g * auc_g / sum_g rows_g` over the groups that hold both classes.

    Args:
        labels: 0 or 1 per row, shape (rows,).
        scores: A number per row, shape (rows,).
        groups: The group (user, request) of each row, shape (rows,). Rows without one (None,
            nan or "") are left out. Integers are the fastest.

    Returns:
        The value (nan with a warning if no group holds both classes) and the number
        of groups that counted.

    Raises:
        ValueError: As for `auc`; or the groups are of several kinds.

    Source: Zhou et al., Deep Interest Network, https://arxiv.org/abs/1706.06978.

    Example:
        >>> gauc([0, 1, 0, 1, 1], [0.1, 0.2, 0.9, 0.3, 0.5], ["a", "a", "b", "b", "c"])
        (0.5, 2)
    """
    labels, scores = check_pairs(labels, scores)
    return gauc_of(auc_by_group(Ranked.of(labels, scores), group_codes(groups, labels)))


class ByGroup(NamedTuple):
    """The AUC and the number of rows of each group that holds both classes."""

    values: Floats
    rows: Floats


def gauc_of(by_group: ByGroup) -> tuple[float, int]:
    """`gauc` from the groups' AUCs."""
    values, rows = by_group
    if not rows.size:
        return undefined("GAUC", "no group holds both classes"), 0
    return float(np.average(values, weights=rows)), rows.size


def auc_by_group(ranked: Ranked, groups: NDArray[np.intp]) -> ByGroup:
    """The AUC of each group that holds both classes.

    Args:
        ranked: The rows.
        groups: Number of each row's group, -1 for none.
    """
    within = ranked.within(groups)
    of_key = ranked.groups_of(within)
    firsts = run_starts(of_key)
    below = np.cumsum(within.negative) - within.negative
    below -= np.repeat(below[firsts], np.diff(firsts, append=below.size))
    won = run_sums(within.positive * (2 * below + within.negative), firsts)
    positives, negatives = (run_sums(n, firsts) for n in (within.positive, within.negative))
    counted = (positives > 0) & (negatives > 0)
    won, positives, negatives = won[counted], positives[counted], negatives[counted]
    return ByGroup(won / (2 * positives * negatives), (positives + negatives).astype(np.float64))


def average_precision(labels: ArrayLike, scores: ArrayLike) -> float:
    """Area under the precision-recall curve: the mean of the precision at each positive.

    `ap = sum_t (recall_t - recall_(t-1)) * precision_t` over the falling distinct scores t

    Args:
        labels: 0 or 1 per row, shape (rows,).
        scores: A number per row, shape (rows,).

    Returns:
        A number in [0, 1], at random the share of positives; nan with a warning without positives.

    Raises:
        ValueError: As for `auc`.

    Example:
        >>> round(average_precision([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8]), 4)
        0.8333
    """
    return average_precision_of(LabelCounts.of(*check_pairs(labels, scores)))


def average_precision_of(counts: LabelCounts) -> float:
    """`average_precision` of counted rows."""
    positive, negative = counts.positive[::-1], counts.negative[::-1]
    if not positive.any():
        return undefined("average precision", "`labels` holds no positives")
    positives = np.cumsum(positive)
    precision = positives / (positives + np.cumsum(negative))
    return float((positive * precision).sum() / positives[-1])


def roc_curve(labels: ArrayLike, scores: ArrayLike, points: int = 200) -> RocCurve:
    """The ROC curve, thinned to at most `points` of its own corners for plotting.

    The corners are spread evenly along the curve's length; the first and last are kept.

    Example:
        >>> roc_curve([0, 1, 1], [0.1, 0.3, 0.9]).true_positive_rate
        array([0. , 0.5, 1. , 1. ])
    """
    if points < 2:
        raise ValueError(f"`points` must be at least 2. Received: points={points}")
    return roc_curve_of(LabelCounts.of(*check_pairs(labels, scores)), points)


def roc_curve_of(counts: LabelCounts, points: int = 200) -> RocCurve:
    """`roc_curve` of counted rows."""
    if not counts.both_classes:
        nan = np.array([undefined("ROC curve", ONE_CLASS)])
        return RocCurve(nan, nan)
    hits, alarms = (
        np.append(0.0, np.cumsum(part[::-1]) / part.sum())
        for part in (counts.positive, counts.negative)
    )
    length = hits + alarms
    corners = np.unique(np.searchsorted(length, np.linspace(0.0, length[-1], points)))
    return RocCurve(alarms[corners], hits[corners])
