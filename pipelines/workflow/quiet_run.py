"""An evaluated run that writes its messages into a file, as one of many on the same data."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from pipelines.experiment.config import Experiment
from pipelines.workflow.linked_steps import link_step
from pipelines.workflow.steps import Steps

_SHARED = ("ingest", "fit", "statistics")


def run_quietly(experiment: Experiment, folder: Path, shared: Steps | None) -> Steps:
    """Trains and evaluates; steps that are finished are kept.

    Args:
        experiment: The experiment.
        folder: The run folder; the messages are in its `log.txt`.
        shared: A finished run of the same data, whose files this run links; None: there is none.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "log.txt").open("a", encoding="utf-8") as log:
        steps = Steps.of(experiment, folder, Console(file=log), force=False)
        if shared is not None:
            _link(shared, steps)
        for step in ("ingest", "fit", "train", "evaluate"):
            getattr(steps, step)()
    return steps


def _link(shared: Steps, steps: Steps) -> None:
    for step in _SHARED:
        made, target = shared.run.path(step), steps.run.path(step)
        if made.exists() and not target.exists():
            link_step(made, target)
