"""A finished run of a small experiment."""

from pathlib import Path

import pytest

from tests.pipelines.pretraining.small_log import finish
from tests.support.once import once


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the experiment, and `run` with every step done; not to be changed."""
    return once(tmp_path_factory, "sequence-run", finish)
