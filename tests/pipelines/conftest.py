"""Shared fixtures of the pipelines' tests."""

from pathlib import Path

import pytest

from pipelines.features import FittedFeatures
from tests.support import shop
from tests.support.experiments import prepare
from tests.support.once import once


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder with the simulated experiment's data and features; not to be changed."""
    return once(tmp_path_factory, "prepared", prepare) / "run"


@pytest.fixture(scope="session")
def fitted() -> FittedFeatures:
    """The small shop's transforms."""
    return shop.fitted()
