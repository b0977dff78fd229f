"""Calibration: the likeliest slope and offset, and an order that stays."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from pipelines.training.calibration import fit_calibration

RNG = np.random.default_rng(0)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _sample(slope: float, offset: float, rows: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    """Labels of scores whose logits are off by a slope and an offset."""
    logit = RNG.normal(-1, 1.5, rows)
    labels = (RNG.random(rows) < _sigmoid(slope * logit + offset)).astype(float)
    return labels, _sigmoid(logit)


@pytest.mark.parametrize(("slope", "offset"), [(1.0, 0.0), (0.4, -1.0), (2.5, 0.7)])
def test_calibration_is_the_likeliest(slope: float, offset: float) -> None:
    labels, scores = _sample(slope, offset)
    logit = np.log(scores / (1 - scores))

    def loss(w: np.ndarray) -> float:
        z = w[0] * logit + w[1]
        return float(np.sum(np.logaddexp(0, z) - labels * z) + ((w - [1, 0]) ** 2).sum() / 2)

    found = fit_calibration(labels, scores)
    np.testing.assert_allclose(found, minimize(loss, [1.0, 0.0]).x, atol=1e-3)
    calibrated = _sigmoid(found[0] * logit + found[1])
    assert calibrated.sum() / labels.sum() == pytest.approx(1, abs=0.01)


def test_unknown_labels_do_not_count() -> None:
    labels, scores = _sample(0.5, 0.5)
    more = np.concatenate([labels, np.full(100, np.nan)])
    rest = np.concatenate([scores, RNG.random(100)])
    assert fit_calibration(more, rest) == fit_calibration(labels, scores)


def test_order_is_never_turned_around() -> None:
    labels, scores = _sample(-1.0, 0.0)
    slope, offset = fit_calibration(labels, scores)
    logit = np.log(scores / (1 - scores))
    assert slope == 1
    assert _sigmoid(logit + offset).sum() / labels.sum() == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("labels", [[1.0, 1.0], [0.0, 0.0], [np.nan, 1.0], []])
def test_one_class_changes_nothing(labels: list[float]) -> None:
    assert fit_calibration(np.array(labels), np.full(len(labels), 0.3)) == (1.0, 0.0)
