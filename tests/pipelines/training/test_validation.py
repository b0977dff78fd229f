"""Validation in batches gives the metrics of all rows."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pipelines.common.errors import PipelineError
from pipelines.metrics import task_metrics
from pipelines.training import validation
from pipelines.training.validation import Validation

SIZES = (7, 1, 40, 12)


def batches(seed: int = 0) -> list[tuple[dict[str, np.ndarray], dict[str, np.ndarray]]]:
    """Labels of two tasks, of which some are not known, and rounded scores."""
    rng = np.random.default_rng(seed)
    found = []
    for size in SIZES:
        labels = {task: rng.integers(0, 2, size).astype("float32") for task in ("click", "buy")}
        labels["buy"][rng.random(size) < 0.6] = np.nan
        scores = {task: rng.random(size).round(1).astype("float32") for task in labels}
        found.append((labels, scores))
    return found


def validated(monkeypatch: pytest.MonkeyPatch, found: list[Any]) -> dict[str, Any]:
    scorer = SimpleNamespace(labelled=lambda feed: iter(found))
    monkeypatch.setattr(validation, "Scorer", lambda model: scorer)
    return Validation(model=None, feed=None, monitor=None)()


def test_the_metrics_are_those_of_all_rows_together(monkeypatch: pytest.MonkeyPatch) -> None:
    found = batches()
    metrics = validated(monkeypatch, found)
    for task in ("click", "buy"):
        labels, scores = (np.concatenate([part[i][task] for part in found]) for i in (0, 1))
        expected = task_metrics(labels, scores)
        assert metrics[f"val_{task}_auc"] == expected["auc"]
        assert metrics[f"val_{task}_logloss"] == pytest.approx(expected["logloss"], rel=1e-12)
    mean = (metrics["val_click_auc"] + metrics["val_buy_auc"]) / 2
    assert metrics["val_auc"] == pytest.approx(mean, rel=1e-12)

    unknown = {task: np.full(3, np.nan, "float32") for task in ("click", "buy")}
    scores = {task: np.full(3, 0.5, "float32") for task in unknown}
    assert validated(monkeypatch, [*found, (unknown, scores)]) == metrics


def test_non_finite_scores_are_divergence(monkeypatch: pytest.MonkeyPatch) -> None:
    found = batches()
    found[2][1]["click"][3] = np.inf
    with pytest.raises(PipelineError, match=r"scores of 'click' are not finite"):
        validated(monkeypatch, found)
