"""A run's experiment, and served rows of two versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.experiment.config import Experiment
from tests.support.experiments import load
from tests.support.served_rows import ServedHours


@pytest.fixture(scope="package")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    """The experiment, with users as groups."""
    folder = tmp_path_factory.mktemp("experiment")
    return load(folder, evaluation__group="user_id", evaluation__ceiling={})


@pytest.fixture(scope="package")
def hours() -> ServedHours:
    """Rows of five hours; not to be changed."""
    hours = ServedHours(seed=5)
    hours.columns["state"][hours.of_canary(3)] = "degraded"
    return hours


@pytest.fixture(scope="package")
def rows(hours: ServedHours, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of these rows; not to be changed."""
    return hours.write(tmp_path_factory.mktemp("joined") / "rows")
