"""Shared fixtures of the pipelines' tests."""

from pathlib import Path

import pytest

from pipelines.features import FittedFeatures
from tests.support import shop
from tests.support.experiments import prepare
from tests.support.exports import write_shop_export
from tests.support.once import once


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder with the simulated experiment's data and features; not to be changed."""
    return once(tmp_path_factory, "prepared", prepare) / "run"


@pytest.fixture(scope="session")
def fitted() -> FittedFeatures:
    """The small shop's transforms."""
    return shop.fitted()


@pytest.fixture(scope="session")
def shop_export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Version 3 of the small shop's model with its manifest; not to be changed."""
    return once(tmp_path_factory, "shop-export", write_shop_export) / "3"
