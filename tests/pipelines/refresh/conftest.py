"""A served run, and a way to refresh it."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from pipelines.experiment.config import load_experiment
from pipelines.refresh.history import History
from pipelines.refresh.refresh import Refresher
from pipelines.workflow.steps import Steps
from tests.support.once import once
from tests.support.state_exports import write_state_export

Refresh = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run with one exported version."""
    made = once(tmp_path_factory, "state-export", write_state_export)
    return Path(shutil.copytree(made / "run", tmp_path / "run"))


@pytest.fixture
def refresh(run: Path) -> Refresh:
    """A function that refreshes the run on the folder `rows`, and returns the printed text."""

    def refreshed(**overrides: Any) -> str:
        values = {"refresh.rows": 300, **{k.replace("__", "."): v for k, v in overrides.items()}}
        printed = io.StringIO()
        console = Console(file=printed, width=80)
        base = Steps.of(load_experiment(run), run, console, force=False)
        Refresher(base, run.parent / "rows", values).refresh()
        return printed.getvalue()

    return refreshed


def decisions(run: Path) -> list[tuple[int, str]]:
    """The versions and what was decided, the oldest first."""
    return [(one.version, one.what) for one in History.of(run).decisions]
