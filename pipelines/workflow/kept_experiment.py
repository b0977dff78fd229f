"""The experiment that a run folder keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from pipelines.common.artifacts import EXPERIMENT, atomic_file, write_json
from pipelines.common.errors import PipelineError
from pipelines.experiment.config import Experiment, load_experiment
from pipelines.experiment.step_fingerprints import resolved, settings_by_step
from pipelines.workflow.differences import differences


def keep_experiment(folder: Path, experiment: Experiment, step: str, console: Console) -> None:
    """Saves the experiment in the run folder if it changes the step that has run."""
    try:
        kept = load_experiment(folder)
    except PipelineError:  # missing, or written by an older version
        kept = None
    if kept is not None and _decides(kept, step) == _decides(experiment, step):
        return
    if kept is not None:
        changes = "; ".join(differences(resolved(kept), resolved(experiment)))
        console.print(
            f"[bold]experiment[/bold]: updated in the run folder: {escape(changes)}",
            soft_wrap=True,
        )
    with atomic_file(folder / EXPERIMENT) as file:
        write_json(file, resolved(experiment))


def _decides(experiment: Experiment, step: str) -> tuple[int, dict[str, Any]]:
    """The settings that determine a step's result."""
    return experiment.seed, settings_by_step(experiment)[step]
