"""What several tests of the pipelines need and only one should make."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from pipelines.steps import Steps
from tests.pipelines.experiments import load


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder with `data` and `features` of the simulated experiment; not to be changed."""
    folder = tmp_path_factory.mktemp("prepared")
    console = Console(file=io.StringIO(), width=80)
    steps = Steps.of(load(folder), folder / "run", console, force=False)
    steps.ingest()
    steps.fit()
    return folder / "run"
