"""The metrics of one task, and how far each cluster moves them, to compare models."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pipelines.metrics.checks import Floats
from pipelines.metrics.intervals import Influence, influence_of, mean_influence
from pipelines.metrics.probability import row_losses
from pipelines.metrics.ranked import Ranked
from pipelines.metrics.ranking import auc_by_group, gauc_of

COMPARED = ("auc", "gauc", "logloss", "normalised_entropy")


def task_influences(
    labels: Floats,
    scores: NDArray[np.floating],
    clusters: NDArray[np.intp],
    groups: NDArray[np.intp] | None,
    probabilities: bool = True,
) -> dict[str, Influence]:
    """The metrics that rows with labels define, and how far each cluster moves them.

    Normalised entropy is `logloss / H(r)` with the mean label r, so a cluster moves it by
    `(psi of logloss - ne * log((1 - r) / r) * psi of r) / H(r)`.

    Args:
        labels, scores: Of each row, shape (rows,).
        clusters: Number of each row's cluster.
        groups: Number of each row's group of GAUC, -1 for none; None: there is no GAUC.
        probabilities: Whether the scores are probabilities.
    """
    if not 0 < labels.sum() < labels.size:
        return {}
    ranked = Ranked.of(labels, scores)
    found = {"auc": influence_of(ranked, clusters)}
    if groups is not None and (by_group := auc_by_group(ranked, groups)).rows.size:
        mean, weights = gauc_of(by_group)[0], by_group.rows / by_group.rows.sum()
        found["gauc"] = mean, weights * (by_group.values - mean)
    if probabilities:
        loss, moved = found["logloss"] = mean_influence(row_losses(labels, scores), clusters)
        rate, moved_rate = mean_influence(labels, clusters)
        odds = np.log1p(-rate) - np.log(rate)
        entropy = rate * odds - np.log1p(-rate)
        ratio = loss / entropy
        found["normalised_entropy"] = ratio, (moved - ratio * odds * moved_rate) / entropy
    return found


def mean_of(several: Sequence[Influence]) -> Influence:
    """The mean of a metric over models of the same rows, and how far each cluster moves it."""
    values, moved = zip(*several, strict=True)
    return float(np.mean(values)), np.mean(moved, axis=0)
