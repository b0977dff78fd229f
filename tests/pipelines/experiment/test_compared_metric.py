"""Tests of the metric by which experiments are compared."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.experiment.compared_metric import check_metric, is_minimised
from pipelines.experiment.config import Experiment
from pipelines.metrics import METRICS
from tests.support import registries
from tests.support.experiments import load


@pytest.fixture
def experiment(tmp_path: Path) -> Iterator[Experiment]:
    with registries.restored(tmp_path):
        METRICS.register("brier")(lambda labels, scores: 0.0)
        METRICS.register("lift", better="higher")(lambda labels, scores: 0.0)
        yield load(tmp_path, evaluation__metrics=["brier", "lift"])


@pytest.mark.parametrize(
    ("metric", "minimise", "message"),
    [
        ("auc", None, None),
        ("brier", True, None),
        ("brier", False, None),
        ("lift", None, None),
        ("lift", False, "`minimise` is for metrics whose better.*Received: metric='lift'"),
        (
            "auc",
            True,
            "`minimise` is for metrics whose better.*Received: metric='auc'",
        ),
        ("brier", None, "`minimise` is missing: 'brier' is a metric of your own"),
        ("calibration", None, "`metric` names 'calibration'"),
        ("brie", None, "`metric` names 'brie'.*Did you mean 'brier'"),
    ],
)
def test_the_better_direction_is_known(
    experiment: Experiment, metric: str, minimise: bool | None, message: str | None
) -> None:
    if message is None:
        check_metric(experiment, "tasks", (), metric, minimise)
        return
    with pytest.raises(ValueError, match=message):
        check_metric(experiment, "tasks", (), metric, minimise)


def test_tasks_are_those_of_the_experiment(experiment: Experiment) -> None:
    with pytest.raises(ValueError, match=r"`task` names 'clik'.*Did you mean 'click'"):
        check_metric(experiment, "task", ["clik"], "auc")


def test_smaller_losses_and_errors_are_better() -> None:
    assert is_minimised("logloss", None)
    assert is_minimised("calibration_error", None)
    assert not is_minimised("auc", None)
    assert is_minimised("brier", True)
    assert not is_minimised("brier", False)
