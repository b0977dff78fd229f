"""Intervals of metrics whose rows depend on each other within a cluster, such as a user."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipelines.metrics.cluster_sums import ClusterSums, Influence
from pipelines.metrics.metric_inputs import Floats, check_pairs, group_codes, undefined
from pipelines.metrics.ranked import LabelCounts, Ranked
from pipelines.metrics.score_order import ByGroup, auc_by_group

NORMAL = NormalDist()
Z = NORMAL.inv_cdf(0.975)


class Interval(NamedTuple):
    """A metric with the interval that holds its true value in 95 % of all samples.

    Attributes:
        value: The metric of these rows.
        low, high: Ends of the interval.
        error: Standard error.
        clusters: Number of independent clusters of rows.
    """

    value: float
    low: float
    high: float
    error: float
    clusters: int

    @property
    def margin(self) -> float:
        """Half of the width."""
        return (self.high - self.low) / 2


class Difference(NamedTuple):
    """A difference of two metrics on the same rows.

    Attributes:
        value: The first metric minus the second.
        low, high: Ends of the 95 % interval.
        p: Probability of a difference at least as large by chance alone.
        clusters: Number of independent clusters of rows.
    """

    value: float
    low: float
    high: float
    p: float
    clusters: int


def with_ends(interval: Interval | Difference) -> list[float]:
    """A value and the ends of its interval, as metrics.json has them."""
    return [interval.value, interval.low, interval.high]


def auc_interval(
    labels: ArrayLike, scores: ArrayLike, clusters: ArrayLike | None = None
) -> Interval:
    """The AUC with the interval for rows that depend on each other within a cluster.

    With the share `v_i` of negatives below a positive i, or of positives above a negative i, m
    positives, n negatives and G clusters:

    `psi_c = sum_(positive i in c) (v_i - auc) / m + sum_(negative i in c) (v_i - auc) / n`,
    `error^2 = G / (G - 1) * sum_c psi_c^2`, `auc -+ 1.96 * error`.

    Rows of one user are alike, so there are fewer independent rows than rows, and an interval that
    takes them as independent (`delong_interval`) is too narrow. With fewer than some 30 clusters
    this one is too narrow as well.

    Args:
        labels: 0 or 1 per row, shape (rows,).
        scores: A number per row, shape (rows,).
        clusters: The user or the request of each row, shape (rows,); the larger of them. Rows
            without one (None or nan) are a cluster each. Defaults to each row alone.

    Returns:
        An `Interval`; nan with a warning unless both classes are present.

    Raises:
        ValueError: As for `auc`.

    Source: Obuchowski, "Nonparametric analysis of clustered ROC curve data", Biometrics 1997.

    Example:
        >>> labels, users = [0, 0, 1, 1, 0, 1], ["a", "a", "b", "b", "c", "c"]
        >>> found = auc_interval(labels, [0.1, 0.4, 0.35, 0.8, 0.2, 0.3], users)
        >>> print(f"{found.value:.3f}, {found.low:.3f} to {found.high:.3f}")
        0.778, 0.560 to 0.996
    """
    y, z = check_pairs(labels, scores)
    return interval_of(*influence_of(Ranked.of(y, z), _numbers(clusters, y)), bounds=(0.0, 1.0))


def delong_interval(labels: ArrayLike, scores: ArrayLike) -> Interval:
    """The AUC with the interval for independent rows.

    `error^2 = var(v of positives) / m + var(v of negatives) / n`, with v, m and n as for
    `auc_interval`. Use that one where a user or a request has several rows.

    Args:
        labels: 0 or 1 per row, shape (rows,).
        scores: A number per row, shape (rows,).

    Returns:
        An `Interval`; nan with a warning unless both classes are present.

    Raises:
        ValueError: As for `auc`.

    Source: DeLong et al., "Comparing the areas under two or more correlated receiver operating
    characteristic curves", Biometrics 1988, by ranks as in Sun and Xu, IEEE SPL 2014.

    Example:
        >>> round(delong_interval([0, 0, 1, 1, 0, 1], [0.1, 0.4, 0.35, 0.8, 0.2, 0.3]).error, 3)
        0.248
    """
    return delong_of(LabelCounts.of(*check_pairs(labels, scores)))


def delong_of(counts: LabelCounts) -> Interval:
    """`delong_interval` of counted rows."""
    positives, negatives = counts.totals
    if not counts.both_classes:
        return interval_of(counts.auc, np.zeros(positives + negatives))
    sides = (
        (counts.positive, counts.below / (2 * negatives), positives),
        (counts.negative, counts.above / (2 * positives), negatives),
    )
    squares = (
        (sizes * (shares - counts.auc) ** 2).sum() / (total * max(total - 1, 1))
        for sizes, shares, total in sides
    )
    error = float(np.sqrt(sum(squares)))
    return _wald(counts.auc, error, positives + negatives, bounds=(0.0, 1.0))


def gauc_interval(labels: ArrayLike, scores: ArrayLike, groups: ArrayLike) -> Interval:
    """The GAUC with the interval for independent groups.

    `error^2 = G / (G - 1) * sum_g (rows_g * (auc_g - gauc))^2 / (sum_g rows_g)^2`

    Args:
        labels, scores, groups: As for `gauc`.

    Returns:
        An `Interval`, whose clusters are the groups that hold both classes.

    Raises:
        ValueError: As for `gauc`.

    Example:
        >>> users = ["a", "a", "b", "b", "c", "c"]
        >>> found = gauc_interval([0, 1, 0, 1, 0, 1], [0.1, 0.2, 0.9, 0.3, 0.4, 0.5], users)
        >>> round(found.value, 3), round(found.error, 3)
        (0.667, 0.333)
    """
    y, z = check_pairs(labels, scores)
    return gauc_interval_of(auc_by_group(Ranked.of(y, z), group_codes(groups, y)))


def gauc_interval_of(by_group: ByGroup) -> Interval:
    """`gauc_interval` from the groups' AUCs."""
    values, rows = by_group
    if not rows.size:
        return interval_of(undefined("GAUC", "no group holds both classes"), rows)
    mean = float(np.average(values, weights=rows))
    return interval_of(mean, rows * (values - mean) / rows.sum(), bounds=(0.0, 1.0))


def auc_difference(
    labels: ArrayLike,
    scores: ArrayLike,
    others: ArrayLike,
    clusters: ArrayLike | None = None,
) -> Difference:
    """The AUC of some scores less that of others, on the same rows.

    The difference of the two `psi_c` of `auc_interval` takes the place of one: the two AUCs err
    alike, so their difference is known better than each of them.

    Args:
        labels, scores, clusters: As for `auc_interval`.
        others: The other scores, shape (rows,), of any scale.

    Returns:
        A `Difference`; nan with a warning unless both classes are present.

    Raises:
        ValueError: As for `auc`.

    Example:
        >>> labels, users = [0, 0, 1, 1, 0, 1], ["a", "a", "b", "b", "c", "c"]
        >>> found = auc_difference(labels, [0, 1, 2, 3, 1, 2], [3, 1, 2, 0, 1, 2], users)
        >>> round(found.value, 3), found.clusters
        (0.556, 3)
    """
    return difference(
        auc_influence(labels, scores, clusters), auc_influence(labels, others, clusters)
    )


def difference(first: Influence, second: Influence) -> Difference:
    """The difference of two metrics, from how far each cluster moves them.

    They are of the same rows, or of different rows of the same clusters: a cluster without rows
    of one of them moves it by 0.
    """
    interval = interval_of(first[0] - second[0], first[1] - second[1])
    if interval.error > 0:
        p = 2 * NORMAL.cdf(-abs(interval.value) / interval.error)
    else:
        p = np.nan if np.isnan(interval.error) else float(interval.value == 0)
    return Difference(interval.value, interval.low, interval.high, p, interval.clusters)


def auc_influence(
    labels: ArrayLike, scores: ArrayLike, clusters: ArrayLike | None = None
) -> Influence:
    """The AUC and `psi_c` of `auc_interval`, of shape (clusters,)."""
    y, z = check_pairs(labels, scores)
    return influence_of(Ranked.of(y, z), _numbers(clusters, y))


def influence_of(ranked: Ranked, clusters: NDArray[np.intp], count: int = 0) -> Influence:
    """`auc_influence` of ranked rows; `count` may exceed the numbers of their clusters."""
    count = max(count, int(clusters.max(initial=-1)) + 1)
    return ClusterSums.of(ranked, clusters, count).auc(ranked.counts)


def mean_influence(values: Floats, clusters: NDArray[np.integer], count: int = 0) -> Influence:
    """A mean over rows, such as logloss, and how far each cluster moves it."""
    return ratio_influence(values, np.ones(values.size), clusters, count)


def ratio_influence(
    values: Floats, others: Floats, clusters: NDArray[np.integer], count: int = 0
) -> Influence:
    """A ratio of sums over rows, such as calibration, and how far each cluster moves it.

    `psi_c = sum_(i in c) (values_i - ratio * others_i) / sum_i others_i`; nan if that sum is 0.
    """
    total = others.sum()
    if not total:
        return np.nan, _sums(clusters, np.zeros(values.size), count)
    ratio = float(values.sum() / total)
    return ratio, _sums(clusters, (values - ratio * others) / total, count)


def mean_of(several: Sequence[Influence]) -> Influence:
    """The mean of a metric over models of the same rows, and how far each cluster moves it."""
    values, moved = zip(*several, strict=True)
    return float(np.mean(values)), np.mean(moved, axis=0)


def cluster_codes(clusters: ArrayLike, labels: Floats) -> NDArray[np.intp]:
    """Numbers the clusters 0, 1, 2, ...; a row without one is a cluster of its own."""
    return separated(group_codes(clusters, labels))


def separated(codes: NDArray[np.intp]) -> NDArray[np.intp]:
    """The codes with a number of its own for each row of -1."""
    alone = np.flatnonzero(codes < 0)
    if not alone.size:
        return codes
    codes = codes.copy()
    codes[alone] = codes.max(initial=-1) + 1 + np.arange(alone.size)
    return codes


def _numbers(clusters: ArrayLike | None, labels: Floats) -> NDArray[np.intp]:
    return np.arange(labels.size) if clusters is None else cluster_codes(clusters, labels)


def _sums(codes: NDArray[np.integer], values: Floats, count: int = 0) -> Floats:
    return np.bincount(codes, values, count).astype(np.float64)


def interval_of(
    value: float, influence: Floats, bounds: tuple[float, float] = (-np.inf, np.inf)
) -> Interval:
    """The interval of a metric, from how far each cluster moves it."""
    count = influence.size
    if np.isnan(value) or count < 2:
        return Interval(value, np.nan, np.nan, np.nan, count)
    error = float(np.sqrt(count / (count - 1) * np.square(influence).sum()))
    return _wald(value, error, count, bounds)


def _wald(value: float, error: float, count: int, bounds: tuple[float, float]) -> Interval:
    half = Z * error
    low, high = max(value - half, bounds[0]), min(value + half, bounds[1])
    return Interval(value, low, high, error, count)
