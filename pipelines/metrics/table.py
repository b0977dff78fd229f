"""The metrics of every report."""

from __future__ import annotations

from functools import partial

import numpy as np

from pipelines.metrics.cluster_sums import Influence
from pipelines.metrics.intervals import mean_influence
from pipelines.metrics.metric import METRICS, Metric
from pipelines.metrics.probability import (
    calibration_error_of,
    calibration_of,
    entropy_ratio,
    logloss_of,
    normalised_entropy_of,
    rate_entropy,
    recalibrated_entropy_of,
    row_excess,
)
from pipelines.metrics.score_order import average_precision_of, gauc_of
from pipelines.metrics.scored_rows import ScoredRows


def _gauc(rows: ScoredRows) -> Influence:
    """GAUC, and how far each group moves it."""
    by_group = rows.by_group
    if by_group is None or not by_group.rows.size:
        return np.nan, np.zeros(0)
    mean = gauc_of(by_group)[0]
    return mean, by_group.rows / by_group.rows.sum() * (by_group.values - mean)


def _entropy(rows: ScoredRows) -> Influence:
    """Normalised entropy, and how far each cluster moves it.

    It is `logloss / H(r)` with the mean label r, so a cluster moves it by
    `(psi of logloss - ne * log((1 - r) / r) * psi of r) / H(r)`.
    """
    (loss, moved), (rate, moved_rate) = rows.sums.logloss(), rows.sums.rate()
    if not 0 < rate < 1:
        return np.nan, moved
    ratio = entropy_ratio(loss, rate)
    odds = np.log1p(-rate) - np.log(rate)
    return ratio, (moved - ratio * odds * moved_rate) / rate_entropy(rate)


def _excess(rows: ScoredRows) -> Influence:
    values = row_excess(rows.labels, rows.scores)
    return mean_influence(values, rows.clusters, rows.cluster_count)


# The second table of a report, of scores that are probabilities.
_of_probabilities = partial(Metric, where=("more",), better="lower", needs_probabilities=True)
METRICS.add(
    Metric(
        "auc",
        of=lambda rows: rows.counts.auc,
        influence=lambda rows: rows.sums.auc(rows.counts),
        label="AUC",
        where=("summary", "segments", "rest", "models"),
        better="higher",
        bounds=(0.0, 1.0),
        chance=0.5,
    ),
    Metric(
        "gauc",
        of=lambda rows: gauc_of(rows.by_group)[0],
        influence=_gauc,
        label="GAUC",
        where=("summary", "models"),
        better="higher",
        unit="groups",
        bounds=(0.0, 1.0),
        chance=0.5,
    ),
    Metric(
        "logloss",
        of=lambda rows: logloss_of(rows.counts),
        influence=lambda rows: rows.sums.logloss(),
        where=("summary", "segments", "models"),
        better="lower",
        needs_probabilities=True,
        bounds=(0.0, np.inf),
    ),
    Metric(
        "excess_logloss",
        influence=_excess,
        label="excess",
        where=("segments", "rest"),
        better="zero",
        needs_probabilities=True,
    ),
    Metric(
        "calibration",
        of=lambda rows: calibration_of(rows.counts),
        influence=lambda rows: rows.sums.calibration(),
        where=("summary", "segments"),
        better="one",
        needs_probabilities=True,
        bounds=(0.0, np.inf),
    ),
    Metric(
        "average_precision",
        of=lambda rows: average_precision_of(rows.counts),
        label="average precision",
        note="area under precision and recall",
        where=("more",),
        better="higher",
    ),
    Metric(
        "normalised_entropy",
        of=lambda rows: normalised_entropy_of(rows.counts),
        influence=_entropy,
        label="normalised entropy",
        note="logloss over that of the mean label",
        where=("more", "models"),
        better="lower",
        needs_probabilities=True,
        bounds=(0.0, np.inf),
    ),
    _of_probabilities(
        "recalibrated_entropy",
        of=lambda rows: recalibrated_entropy_of(rows.counts),
        label="normalised entropy, recalibrated",
        note="after the best scale and offset of the logit",
    ),
    _of_probabilities(
        "calibration_error",
        of=lambda rows: calibration_error_of(rows.counts),
        label="calibration error",
        note="20 bins, without bias",
    ),
    _of_probabilities(
        "ici",
        of=lambda rows: rows.smooth.ici,
        label="integrated calibration index",
        note="mean distance to the smooth curve",
    ),
    _of_probabilities(
        "e50",
        of=lambda rows: rows.smooth.e50,
        label="median distance to the smooth curve",
    ),
    _of_probabilities(
        "e90",
        of=lambda rows: rows.smooth.e90,
        label="distance that nine of ten rows are below",
    ),
)
