"""Invalid input of the metrics, and undefined metrics."""

import numpy as np
import pytest

from pipelines.metrics import (
    UndefinedMetricWarning,
    auc,
    calibration,
    calibration_curve,
    gauc,
    logloss,
    roc_curve,
)


@pytest.mark.parametrize("label", [0, 1])
@pytest.mark.parametrize("rows", [0, 5])
def test_one_class_or_no_rows_are_undefined(label, rows):
    labels, scores = np.full(rows, label), np.linspace(0.1, 0.9, rows)
    with pytest.warns(UndefinedMetricWarning, match="AUC is not defined: only one class"):
        assert np.isnan(auc(labels, scores))
    with pytest.warns(UndefinedMetricWarning, match="no group holds both classes"):
        value, counted = gauc(labels, scores, np.arange(rows) % 2)
    assert np.isnan(value)
    assert counted == 0
    with pytest.warns(UndefinedMetricWarning, match="ROC curve"):
        assert np.isnan(roc_curve(labels, scores).true_positive_rate).all()


def test_metrics_without_denominator_are_undefined():
    with pytest.warns(UndefinedMetricWarning, match="calibration is not defined: .* no positives"):
        assert np.isnan(calibration([0, 0], [0.2, 0.1]))
    with pytest.warns(UndefinedMetricWarning, match="logloss is not defined: there are no rows"):
        assert np.isnan(logloss([], []))


SCORED = [auc, logloss, calibration, calibration_curve, roc_curve, lambda y, s: gauc(y, s, y)]
SCORED_NAMES = ["auc", "logloss", "calibration", "calibration_curve", "roc_curve", "gauc"]


@pytest.mark.parametrize("metric", SCORED, ids=SCORED_NAMES)
def test_bad_labels_and_scores_are_refused(metric):
    with pytest.raises(ValueError, match=r"`scores` must be numbers. Received: 1 nan of 3"):
        metric([0, 1, 1], [0.1, np.nan, 0.3])
    with pytest.raises(ValueError, match=r"scores.shape=\(2,\) and labels.shape=\(3,\)"):
        metric([0, 1, 1], [0.1, 0.2])
    with pytest.raises(ValueError, match=r"`labels` must be 0 or 1.*Received: 0.5 and 1 more"):
        metric([0, 0.5, 2], [0.1, 0.2, 0.3])
    with pytest.raises(ValueError, match=r"`labels` must be 0 or 1.*Received: nan"):
        metric([0, 1, np.nan], [0.1, 0.2, 0.3])
    with pytest.raises(ValueError, match=r"one-dimensional. Received: shape=\(2, 1\)"):
        metric([[0], [1]], [[0.1], [0.2]])
    with pytest.raises(ValueError, match=r"`scores` must be numbers. Received: dtype=<U4"):
        metric([0, 1], ["high", "low"])


@pytest.mark.parametrize("metric", [logloss, calibration, calibration_curve])
@pytest.mark.parametrize("wrong", [-0.1, 1.5, np.inf])
def test_non_probabilities_are_refused(metric, wrong):
    with pytest.raises(ValueError, match=r"`scores` must be probabilities in \[0, 1\]"):
        metric([0, 1], [0.5, wrong])


def test_bad_groups_and_counts_are_refused():
    labels, scores = [0, 1, 1], [0.1, 0.2, 0.3]
    with pytest.raises(ValueError, match=r"groups.shape=\(2,\) and labels.shape=\(3,\)"):
        gauc(labels, scores, [1, 2])
    with pytest.raises(ValueError, match="`groups` must hold values of one kind"):
        gauc(labels, scores, np.array(["a", 3, "b"], dtype=object))
    with pytest.raises(ValueError, match=r"`bins` must be a positive integer. Received: bins=0"):
        calibration_curve(labels, scores, bins=0)
    with pytest.raises(ValueError, match=r"`points` must be at least 2. Received: points=1"):
        roc_curve(labels, scores, points=1)
