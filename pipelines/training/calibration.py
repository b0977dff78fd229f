"""Calibrates a trained model: predicted rates become the observed ones."""

from __future__ import annotations

import numpy as np

from pipelines.feed import Feed
from pipelines.metrics.probability import logit
from pipelines.scoring.scorer import Scorer
from recsys_attn.models import RankingModel

_STEPS, _SMALL = 50, 1e-9


def calibrate(model: RankingModel, valid: Feed) -> dict[str, tuple[float, float]]:
    """Calibrates each task of probabilities on the validation rows; returns slope and offset."""
    model.calibrate({})
    labels, scores = Scorer(model).score_labelled(valid)
    names = [task.name for task in model.schema.tasks if task.has_probabilities]
    numbers = {name: fit_calibration(labels[name], scores[name]) for name in names}
    model.calibrate(numbers)
    return numbers


def fit_calibration(labels: np.ndarray, scores: np.ndarray) -> tuple[float, float]:
    """Fits `p = sigmoid(slope * logit + offset)` by maximum likelihood.

    Newton's method with a ridge of one pseudo-row, so that few rows change little. A slope that is
    not positive would turn the order around: the offset alone is fitted then.

    Args:
        labels: 0, 1, or NaN for unknown.
        scores: Probabilities.

    Returns:
        Slope and offset; 1 and 0 unless both labels occur.
    """
    known = ~np.isnan(labels)
    y, p = labels[known], np.clip(scores[known].astype("float64"), 1e-7, 1 - 1e-7)
    if not 0 < y.sum() < len(y):
        return 1.0, 0.0
    logits = logit(p)
    slope, offset = _change(np.stack([logits, np.ones_like(logits)], axis=1), y, logits)
    if 1 + slope <= 0:
        return 1.0, float(_change(np.ones((len(y), 1)), y, logits)[0])
    return float(1 + slope), float(offset)


def _change(x: np.ndarray, y: np.ndarray, logits: np.ndarray) -> np.ndarray:
    """The weights w of the likeliest `sigmoid(logits + x w)`."""

    def loss(w: np.ndarray) -> float:
        z = logits + x @ w
        return float(np.sum(np.logaddexp(0, z) - y * z) + w @ w / 2)

    w = np.zeros(x.shape[1])
    for _ in range(_STEPS):
        p = 1 / (1 + np.exp(-(logits + x @ w)))
        gradient = x.T @ (p - y) + w
        step = np.linalg.solve((x.T * (p * (1 - p))) @ x + np.eye(len(w)), gradient)
        while loss(w - step) > loss(w) and np.abs(step).max() > _SMALL:
            step = step / 2
        w = w - step
        if np.abs(step).max() <= _SMALL:
            break
    return w
