"""Tests of runs that write into a file."""

from __future__ import annotations

from typing import Any

import pytest

from pipelines.workflow.quiet_run import training_seconds


@pytest.mark.parametrize(
    ("step", "epochs", "expected"),
    [(70.0, [20.0, 30.0], 70.0), (15.0, [20.0, 30.0], 50.0), (5.0, [], 5.0)],
    ids=["with its start", "interrupted", "no epochs"],
)
def test_an_interrupted_training_took_all_of_its_epochs(
    step: float, epochs: list[float], expected: float
) -> None:
    trained: dict[str, Any] = {
        "seconds": step,
        "training": [{"epoch": place, "seconds": each} for place, each in enumerate(epochs)],
    }
    assert training_seconds(trained) == expected
