"""All metrics of one task in one dictionary."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipelines.metrics.checks import (
    Floats,
    UndefinedMetricWarning,
    check_labels,
    check_range,
    check_scores,
    check_shape,
    group_codes,
)
from pipelines.metrics.intervals import (
    Difference,
    Influence,
    Interval,
    cluster_codes,
    delong_of,
    gauc_interval_of,
    interval_of,
    mean_influence,
    ratio_influence,
    separated,
)
from pipelines.metrics.ordered import Ordered, cluster_sums
from pipelines.metrics.probability import (
    calibration_curve_of,
    calibration_error_of,
    calibration_of,
    logloss_of,
    normalised_entropy_of,
    recalibrated_entropy_of,
    row_losses,
)
from pipelines.metrics.ranked import LabelCounts
from pipelines.metrics.ranking import average_precision_of, gauc_of
from pipelines.metrics.smooth import POINTS, smooth_of

CALIBRATED = (0.9, 1.1)  # within it, predicted over observed is not worth a correction


def task_metrics(
    labels: ArrayLike,
    scores: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    requests: ArrayLike | None = None,
    at: Sequence[int] = (10,),
    probabilities: bool = True,
    train_rate: float | None = None,
    ceiling: ArrayLike | None = None,
    baselines: Mapping[str, ArrayLike] | None = None,
) -> dict[str, Any]:
    """All metrics of one task on its labelled rows, as the evaluation's metrics.json has them.

    Args:
        labels: 0, 1, or nan for unknown, shape (rows,).
        scores: Predicted probability per row, shape (rows,).
        groups: The group of each row; without it GAUC is None. Rows whose group is missing (None,
            nan or "") count in everything but GAUC.
        requests: Number of each row's request, for the metrics at k; without it there are none.
        at: The values of k.
        probabilities: Whether the scores are probabilities; if not, logloss and calibration are
            None.
        train_rate: Share of positives in the training rows, for the trivial prediction.
        ceiling: True probability per row, if known.
        baselines: Other scores per row by name, of any scale.

    Returns:
        Counts and metrics by name; a metric that the data does not define is None. `intervals` has
        the ends of 95 % intervals: of AUC, GAUC, logloss and calibration for rows that depend on
        each other within a group (else a request), and of AUC by DeLong, for independent rows.
        `at_k` has the metrics at k by name, and `trivial` what the training rate for every row
        reaches, whose order is random.
    """
    every = np.asarray(labels)
    if every.dtype.kind != "f":
        every = every.astype(np.float64)
    known: Any = ~np.isnan(every)
    known = slice(None) if known.all() else known  # which copies no column
    y = check_labels(every[known]) == 1

    def rows(name: str, column: ArrayLike) -> NDArray[Any]:
        return check_shape(name, np.asarray(column), every)[known]

    codes = None if groups is None else group_codes(rows("groups", groups), y)
    named = None if requests is None else rows("requests", requests)

    def order(name: str, column: ArrayLike) -> Ordered:
        return Ordered.of(y, check_scores(rows(name, column)), codes, named, at)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)  # reported as None
        z = rows("scores", scores)
        if probabilities:
            check_range(z)
        own = order("scores", scores)
        found = {
            "rows": y.size,
            "positives": own.counts.totals[0],
            **_of_order(own),
            "gauc_groups": None if own.by_group is None else own.by_group.rows.size,
            "ranked_requests": None if named is None else own.top.requests,
            "average_precision": _or_none(average_precision_of(own.counts)),
            **_of_probabilities(own.counts, probabilities),
            **_entropies(own.counts, probabilities),
            **_smooth(own.counts, probabilities),
            **_intervals(own, y, z, _clusters(codes, named, y), probabilities),
        }
        del own  # its memory
        best = trivial = None
        if ceiling is not None:
            whole = order("ceiling", ceiling)
            check_range(whole.counts.scores)
            best = _of_order(whole) | {"logloss": _or_none(logloss_of(whole.counts))}
        if train_rate is not None:
            whole = order("train_rate", np.full(every.shape, train_rate))
            trivial = _of_order(whole) | _of_probabilities(whole.counts, probabilities)
        others = {n: _of_order(order(n, column)) for n, column in (baselines or {}).items()}
        return found | {"trivial": trivial, "ceiling": best, "baselines": others}


def _of_order(order: Ordered) -> dict[str, Any]:
    """What the order of a column of scores tells."""
    within = None if order.by_group is None else _or_none(gauc_of(order.by_group)[0])
    at_k = order.top.metrics() if order.top.requests else {}
    return {"auc": _or_none(order.counts.auc), "gauc": within, "at_k": at_k}


def _intervals(
    order: Ordered,
    labels: NDArray[np.bool_],
    scores: NDArray[Any],
    clusters: NDArray[np.intp],
    probabilities: bool,
) -> dict[str, Any]:
    """Ends of intervals by metric, the clusters of AUC's, and the share of rows in GAUC."""
    sums = cluster_sums(labels, scores, clusters, order.counts, probabilities)
    whole = interval_of(*sums.auc(order.counts), bounds=(0.0, 1.0))
    found = {"auc": ends(whole), "auc_delong": ends(delong_of(order.counts))}
    if probabilities:
        found |= {
            "logloss": ends(interval_of(*sums.logloss())),
            "calibration": ends(interval_of(*sums.calibration())),
        }
    share = None
    if order.by_group is not None:
        found["gauc"] = ends(gauc_interval_of(order.by_group))
        share = float(order.by_group.rows.sum() / max(labels.size, 1))
    return {"intervals": found, "clusters": whole.clusters, "gauc_share": share}


def _clusters(
    groups: NDArray[np.intp] | None, requests: NDArray[Any] | None, labels: NDArray[Any]
) -> NDArray[np.intp]:
    """Rows that depend on each other have one number: those of a group, else of a request."""
    if groups is not None:
        return separated(groups)
    return np.arange(labels.size) if requests is None else cluster_codes(requests, labels)


def _of_probabilities(counts: LabelCounts, probabilities: bool) -> dict[str, float | str | None]:
    """Logloss, calibration, and whether it is off; None if the scores are no probabilities."""
    if not probabilities:
        return {"logloss": None, "calibration": None, "calibration_off": None}
    ratio = calibration_of(counts)

    def expected(block: LabelCounts) -> NDArray[Any]:
        return block.rows * block.scores.astype(np.float64)

    variance = counts.total(lambda block: expected(block) * (1 - block.scores))
    return {
        "logloss": _or_none(logloss_of(counts)),
        "calibration": _or_none(ratio),
        "calibration_off": _off(ratio, counts.total(expected), variance),
    }


def _entropies(counts: LabelCounts, probabilities: bool) -> dict[str, float | None]:
    """What probabilities say of the labels beyond their mean, and how far off they are."""
    metrics: dict[str, Callable[[LabelCounts], float]] = {
        "normalised_entropy": normalised_entropy_of,
        "recalibrated_entropy": recalibrated_entropy_of,
        "calibration_error": calibration_error_of,
    }
    return {n: _or_none(f(counts)) if probabilities else None for n, f in metrics.items()}


def _smooth(counts: LabelCounts, probabilities: bool) -> dict[str, float | None]:
    """The distances of the scores to the smooth calibration curve: their mean and quantiles."""
    if not probabilities:
        return dict.fromkeys(("ici", "e50", "e90"))
    found = smooth_of(calibration_curve_of(counts, POINTS))
    return {name: _or_none(getattr(found, name)) for name in ("ici", "e50", "e90")}


def probability_influences(
    labels: Floats, scores: NDArray[Any], clusters: NDArray[np.integer], count: int = 0
) -> dict[str, Influence]:
    """Logloss and calibration, and how far each cluster moves them."""
    if not labels.size:
        nothing = np.nan, np.zeros(count)
        return {"logloss": nothing, "calibration": nothing}
    return {
        "logloss": mean_influence(row_losses(labels, scores), clusters, count),
        "calibration": ratio_influence(scores.astype(np.float64), labels, clusters, count),
    }


def ends(interval: Interval | Difference) -> list[float] | None:
    """The ends of an interval; None if it is not defined."""
    return None if np.isnan(interval.low) else [interval.low, interval.high]


def calibration_off(ratio: float, labels: Floats, scores: Floats) -> str | None:
    """`"high"` or `"low"`: outside `CALIBRATED`, and by more than two standard errors.

    The standard error is that of the number of positives under the predicted probabilities.
    """
    return _off(ratio, float(scores.sum()), float((scores * (1 - scores)).sum()))


def _off(ratio: float, predicted: float, variance: float) -> str | None:
    """`calibration_off` from the sum of the scores and the variance of the positives."""
    if np.isnan(ratio) or CALIBRATED[0] <= ratio <= CALIBRATED[1]:
        return None
    if abs(predicted - predicted / ratio) <= 2 * np.sqrt(variance):
        return None
    return "high" if ratio > 1 else "low"


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else value
