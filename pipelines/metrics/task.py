"""All metrics of one task in one dictionary."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipelines.metrics.checks import (
    Floats,
    UndefinedMetricWarning,
    check_pairs,
    check_shape,
    group_codes,
)
from pipelines.metrics.intervals import (
    Difference,
    Influence,
    Interval,
    auc_interval_of,
    cluster_codes,
    delong_of,
    gauc_interval_of,
    interval_of,
    mean_influence,
    ratio_influence,
    separated,
)
from pipelines.metrics.probability import (
    calibration,
    calibration_error,
    logloss,
    normalised_entropy,
    recalibrated_entropy,
    row_losses,
)
from pipelines.metrics.ranked import Ranked
from pipelines.metrics.ranking import ByGroup, auc_by_group, average_precision_of, gauc_of
from pipelines.metrics.smooth import smooth_calibration
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

    codes = None if groups is None else group_codes(rows("groups", groups), y)
    named = None if requests is None else rows("requests", requests)

    def order(name: str, column: ArrayLike) -> _Order:
        return _Order.of(*check_pairs(y, rows(name, column)), codes, named, at)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)  # reported as None
        z = rows("scores", scores)
        own = order("scores", scores)
        found = {
            "rows": y.size,
            "positives": int(np.count_nonzero(y)),
            **own.metrics(),
            "gauc_groups": None if own.by_group is None else own.by_group.rows.size,
            "ranked_requests": None if named is None else own.top.requests,
            "average_precision": _or_none(average_precision_of(own.ranked)),
            **_of_probabilities(y, z, probabilities),
            **_entropies(y, z, probabilities),
            **_smooth(y, z, probabilities),
            **own.intervals(_clusters(codes, named, y), probabilities),
        }
        del own  # its memory
        best = trivial = None
        if ceiling is not None:
            best = order("ceiling", ceiling).metrics()
            best["logloss"] = _or_none(logloss(y, rows("ceiling", ceiling)))
        if train_rate is not None:
            constant = np.full(every.shape, train_rate)
            trivial = order("train_rate", constant).metrics()
            trivial |= _of_probabilities(y, constant[known], probabilities)
        others = {n: order(n, column).metrics() for n, column in (baselines or {}).items()}
        return found | {"trivial": trivial, "ceiling": best, "baselines": others}


class _Order(NamedTuple):
    """One column of scores, sorted once for all that its order tells."""

    ranked: Ranked
    by_group: ByGroup | None
    top: TopK

    @classmethod
    def of(
        cls,
        labels: Floats,
        scores: NDArray[Any],
        groups: NDArray[np.intp] | None,
        requests: NDArray[Any] | None,
        at: Sequence[int],
    ) -> _Order:
        ranked, top = Ranked.of(*check_pairs(labels, scores)), TopK(at)
        if requests is not None:
            top.add(labels, scores, requests)
        return cls(ranked, None if groups is None else auc_by_group(ranked, groups), top)

    def metrics(self) -> dict[str, Any]:
        within = None if self.by_group is None else _or_none(gauc_of(self.by_group)[0])
        at_k = self.top.metrics() if self.top.requests else {}
        return {"auc": _or_none(self.ranked.auc), "gauc": within, "at_k": at_k}

    def intervals(self, clusters: NDArray[np.intp], probabilities: bool) -> dict[str, Any]:
        """Ends of intervals by metric, the clusters of AUC's, and the share of rows in GAUC."""
        whole = auc_interval_of(self.ranked, clusters)
        found = {"auc": ends(whole), "auc_delong": ends(delong_of(self.ranked))}
        if probabilities:
            ranked = self.ranked
            influences = probability_influences(
                ranked.labels, ranked.scores, clusters[ranked.order]
            )
            found |= {name: ends(interval_of(*moved)) for name, moved in influences.items()}
        share = None
        if self.by_group is not None:
            found["gauc"] = ends(gauc_interval_of(self.by_group))
            share = float(self.by_group.rows.sum() / max(self.ranked.order.size, 1))
        return {"intervals": found, "clusters": whole.clusters, "gauc_share": share}


def _clusters(
    groups: NDArray[np.intp] | None, requests: NDArray[Any] | None, labels: Floats
) -> NDArray[np.intp]:
    """Rows that depend on each other have one number: those of a group, else of a request."""
    if groups is not None:
        return separated(groups)
    return np.arange(labels.size) if requests is None else cluster_codes(requests, labels)


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


def _smooth(labels: Floats, scores: NDArray[Any], probabilities: bool) -> dict[str, float | None]:
    """The distances of the scores to the smooth calibration curve: their mean and quantiles."""
    if not probabilities:
        return dict.fromkeys(("ici", "e50", "e90"))
    found = smooth_calibration(labels, scores)
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
    if np.isnan(ratio) or CALIBRATED[0] <= ratio <= CALIBRATED[1]:
        return None
    error = np.sqrt((scores * (1 - scores)).sum())
    if abs(scores.sum() - labels.sum()) <= 2 * error:
        return None
    return "high" if ratio > 1 else "low"


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else value
