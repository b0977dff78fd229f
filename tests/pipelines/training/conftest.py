"""A trainer on the prepared data."""

from pathlib import Path

import pytest

from tests.pipelines.training.trainer import Trainer


@pytest.fixture
def trainer(prepared: Path, tmp_path: Path) -> Trainer:
    return Trainer(prepared, tmp_path)
