"""All metrics of one task in one dictionary."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipelines.metrics.intervals import (
    Difference,
    Interval,
    cluster_codes,
    delong_of,
    interval_of,
    separated,
)
from pipelines.metrics.metric import METRICS, values_of
from pipelines.metrics.metric_inputs import (
    UndefinedMetricWarning,
    check_labels,
    check_range,
    check_scores,
    check_shape,
    group_codes,
)
from pipelines.metrics.ranked import LabelCounts
from pipelines.metrics.scored_rows import ScoredRows

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
        the ends of 95 % intervals for rows that depend on each other within a group (else a
        request), and of AUC by DeLong, for independent rows. `at_k` has the metrics at k by name,
        and `trivial` what the training rate for every row reaches, whose order is random.
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
    clusters = _clusters(codes, named, y)

    def scored(name: str, column: ArrayLike, probabilities: bool) -> ScoredRows:
        values = check_scores(rows(name, column))
        if probabilities:
            check_range(values)
        return ScoredRows(y, values, clusters, codes, named, at, probabilities)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)  # reported as None
        metrics = _whole(scored("scores", scores, probabilities))
        best = trivial = None
        if ceiling is not None:
            best = _summary(scored("ceiling", ceiling, True))
        if train_rate is not None:
            constant = scored("train_rate", np.full(every.shape, train_rate), probabilities)
            trivial = _summary(constant) | {"calibration_off": calibration_off(constant)}
        others = {n: _order(scored(n, c, False)) for n, c in (baselines or {}).items()}
        return metrics | {"trivial": trivial, "ceiling": best, "baselines": others}


def own_metrics(
    options_by_name: Mapping[str, Mapping[str, Any]],
    labels: ArrayLike,
    scores: ArrayLike,
    requests: NDArray[np.integer],
    probabilities: bool = True,
) -> dict[str, float | None]:
    """Further metrics of one task on its labelled rows.

    Args:
        options_by_name: Options by the name of the metric.
        labels: 0, 1, or nan for unknown, shape (rows,).
        scores: The score of each row, shape (rows,).
        requests: The number of each row's request.
        probabilities: Whether the scores are probabilities.

    Returns:
        The number of each metric; None if it is not finite, or needs probabilities.

    Raises:
        ValueError: A metric returns no number.
    """
    labels, scores = np.asarray(labels, np.float64), np.asarray(scores, np.float64)
    known = ~np.isnan(labels)
    rows = ScoredRows(
        labels[known], scores[known], requests=requests[known], probabilities=probabilities
    )
    return {name: METRICS[name].value(rows, **options) for name, options in options_by_name.items()}


def _whole(rows: ScoredRows) -> dict[str, Any]:
    """The counts, the metrics and their intervals."""
    groups = rows.by_group
    in_groups = None if groups is None else float(groups.rows.sum() / max(rows.labels.size, 1))
    return {
        "rows": rows.labels.size,
        "positives": rows.counts.totals[0],
        **values_of(rows, METRICS.of_all_rows),
        "at_k": _at_k(rows),
        "gauc_groups": None if groups is None else groups.rows.size,
        "gauc_share": in_groups,
        "ranked_requests": None if rows.requests is None else rows.top.requests,
        "calibration_off": calibration_off(rows),
        "clusters": rows.cluster_count,
        "intervals": {
            **{
                metric.name: ends(interval_of(*metric.influence(rows), metric.bounds))
                for metric in METRICS.of_all_rows
                if metric.influence is not None and metric.is_of(rows)
            },
            "auc_delong": ends(delong_of(rows.counts)),
        },
    }


def _summary(rows: ScoredRows) -> dict[str, Any]:
    """The metrics of the first table, and those at k, of a column to compare with."""
    return values_of(rows, METRICS.where("summary")) | {"at_k": _at_k(rows)}


def _order(rows: ScoredRows) -> dict[str, Any]:
    """The `_summary` of scores that are no probabilities."""
    metrics = [m for m in METRICS.where("summary") if not m.needs_probabilities]
    return values_of(rows, metrics) | {"at_k": _at_k(rows)}


def _at_k(rows: ScoredRows) -> dict[str, float | None]:
    return rows.top.metrics() if rows.top.requests else {}


def _clusters(
    groups: NDArray[np.intp] | None, requests: NDArray[Any] | None, labels: NDArray[Any]
) -> NDArray[np.intp]:
    """Rows that depend on each other have one number: those of a group, else of a request."""
    if groups is not None:
        return separated(groups)
    return np.arange(labels.size) if requests is None else cluster_codes(requests, labels)


def ends(interval: Interval | Difference) -> list[float] | None:
    """The ends of an interval; None if it is not defined."""
    return None if np.isnan(interval.low) else [interval.low, interval.high]


def calibration_off(rows: ScoredRows) -> str | None:
    """`"high"` or `"low"`: outside `CALIBRATED`, and by more than two standard errors.

    The standard error is that of the number of positives under the predicted probabilities.
    """
    counts = rows.counts
    if not rows.probabilities or not counts.totals[0]:
        return None

    def expected(block: LabelCounts) -> NDArray[Any]:
        return block.rows * block.scores.astype(np.float64)

    predicted, observed = counts.total(expected), counts.totals[0]
    variance = counts.total(lambda block: expected(block) * (1 - block.scores))
    ratio = predicted / observed
    if CALIBRATED[0] <= ratio <= CALIBRATED[1]:
        return None
    if abs(predicted - observed) <= 2 * np.sqrt(variance):
        return None
    return "high" if ratio > 1 else "low"
