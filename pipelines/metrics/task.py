"""All metrics of one task in one dictionary."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipelines.metrics.checks import Floats, UndefinedMetricWarning, check_shape, group_codes
from pipelines.metrics.intervals import (
    Difference,
    Influence,
    Interval,
    auc_interval,
    cluster_codes,
    delong_interval,
    gauc_interval,
    interval_of,
    mean_influence,
    ratio_influence,
)
from pipelines.metrics.probability import (
    calibration,
    calibration_error,
    logloss,
    normalised_entropy,
    recalibrated_entropy,
    row_losses,
)
from pipelines.metrics.ranking import auc, auc_by_group, average_precision, gauc
from pipelines.metrics.top_k import TopK

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
        groups: The group of each row; without it GAUC is None. Rows whose group is missing (None
            or nan) count in everything but GAUC.
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
    every = np.asarray(labels, dtype=np.float64)
    known = ~np.isnan(every)
    y = every[known]

    def rows(name: str, column: ArrayLike) -> NDArray[Any]:
        return check_shape(name, np.asarray(column), every)[known]

    codes = None if groups is None else _codes(rows("groups", groups), y)
    named = None if requests is None else rows("requests", requests)

    def ranking(name: str, column: ArrayLike) -> tuple[dict[str, Any], dict[str, int | None]]:
        scored = rows(name, column)
        within, counted = (np.nan, None) if codes is None else gauc(y, scored, codes)
        top = TopK(at)
        if named is not None:
            top.add(y, scored, named)
        at_k = top.metrics() if top.requests else {}
        ranked = None if named is None else top.requests
        counts = {"gauc_groups": counted, "ranked_requests": ranked}
        return {"auc": _or_none(auc(y, scored)), "gauc": _or_none(within), "at_k": at_k}, counts

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)  # reported as None
        own, counts = ranking("scores", scores)
        z = rows("scores", scores)
        best = trivial = None
        if ceiling is not None:
            best, _ = ranking("ceiling", ceiling)
            best["logloss"] = _or_none(logloss(y, rows("ceiling", ceiling)))
        if train_rate is not None:
            constant = np.full(every.shape, train_rate)
            trivial, _ = ranking("train_rate", constant)
            trivial |= _of_probabilities(y, constant[known], probabilities)
        return {
            "rows": y.size,
            "positives": int(np.count_nonzero(y)),
            **own,
            **counts,
            "average_precision": _or_none(average_precision(y, z)),
            **_of_probabilities(y, z, probabilities),
            **_entropies(y, z, probabilities),
            **_intervals(y, z, codes, named if codes is None else codes, probabilities),
            "trivial": trivial,
            "ceiling": best,
            "baselines": {n: ranking(n, column)[0] for n, column in (baselines or {}).items()},
        }


def _codes(groups: NDArray[Any], labels: Floats) -> Floats:
    """Numbers of the groups; nan for rows without one."""
    found = group_codes(groups, labels)
    return np.where(found < 0, np.nan, found)


def _of_probabilities(
    labels: Floats, scores: NDArray[Any], probabilities: bool
) -> dict[str, float | str | None]:
    """Logloss, calibration, and whether it is off; None if the scores are no probabilities."""
    if not probabilities:
        return {"logloss": None, "calibration": None, "calibration_off": None}
    ratio = calibration(labels, scores)
    return {
        "logloss": _or_none(logloss(labels, scores)),
        "calibration": _or_none(ratio),
        "calibration_off": calibration_off(ratio, labels, scores.astype(np.float64)),
    }


def _entropies(
    labels: Floats, scores: NDArray[Any], probabilities: bool
) -> dict[str, float | None]:
    """What probabilities say of the labels beyond their mean, and how far off they are."""
    metrics = {
        "normalised_entropy": normalised_entropy,
        "recalibrated_entropy": recalibrated_entropy,
        "calibration_error": calibration_error,
    }
    return {n: _or_none(f(labels, scores)) if probabilities else None for n, f in metrics.items()}


def _intervals(
    labels: Floats,
    scores: NDArray[Any],
    groups: NDArray[Any] | None,
    clusters: NDArray[Any] | None,
    probabilities: bool,
) -> dict[str, Any]:
    """Ends of intervals by metric, the clusters of AUC's, and the share of rows in GAUC."""
    whole = auc_interval(labels, scores, clusters)
    found = {"auc": ends(whole), "auc_delong": ends(delong_interval(labels, scores))}
    if probabilities:
        rows = np.arange(labels.size)
        codes = rows if clusters is None else cluster_codes(clusters, labels)
        found |= {
            name: ends(interval_of(*influence))
            for name, influence in probability_influences(labels, scores, codes).items()
        }
    share = None
    if groups is not None:
        found["gauc"] = ends(gauc_interval(labels, scores, groups))
        share = float(auc_by_group(labels, scores, groups)[1].sum() / max(labels.size, 1))
    return {"intervals": found, "clusters": whole.clusters, "gauc_share": share}


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
    if np.isnan(ratio) or CALIBRATED[0] <= ratio <= CALIBRATED[1]:
        return None
    error = np.sqrt((scores * (1 - scores)).sum())
    if abs(scores.sum() - labels.sum()) <= 2 * error:
        return None
    return "high" if ratio > 1 else "low"


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else value
