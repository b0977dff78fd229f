"""Runs that several tests share."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.integration.commands import finish
from tests.support.experiments import prepare
from tests.support.once import once


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A read-only run folder with the data and features of the simulated experiment."""
    return once(tmp_path_factory, "prepared", prepare) / "run"


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A read-only folder with the experiment file and its finished run."""
    return once(tmp_path_factory, "finished", finish)


@pytest.fixture
def folder(finished: Path, tmp_path: Path) -> Path:
    """A copy of the finished run."""
    return Path(shutil.copytree(finished, tmp_path / "copy"))
