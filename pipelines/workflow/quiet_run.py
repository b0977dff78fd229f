"""Runs that share finished steps and write their messages into a file: many on the same data."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from pipelines.common.artifacts import MANIFEST, atomic_directory
from pipelines.experiment.config import Experiment
from pipelines.workflow.run import STEPS
from pipelines.workflow.steps import Steps

DATA_STEPS = ("ingest", "fit")
EVALUATED = (*DATA_STEPS, "train", "evaluate")


def run_quietly(
    experiment: Experiment,
    folder: Path,
    shared: Path | None = None,
    steps: Sequence[str] = EVALUATED,
) -> Steps:
    """Runs some steps, by default until the evaluation; steps that are finished are kept.

    Args:
        experiment: The experiment.
        folder: The run folder; the messages are in its `log.txt`.
        shared: The folder of a finished run of the same data, whose files this run links; None:
            there is none.
        steps: The steps.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "log.txt").open("a", encoding="utf-8") as log:
        run = Steps.of(experiment, folder, Console(file=log), force=False)
        if shared is not None and shared != folder:
            _link(shared, run)
        run.take(steps)
    return run


def _link(shared: Path, run: Steps) -> None:
    for step in (*DATA_STEPS, "statistics"):
        source, target = shared / STEPS[step].folder, run.run.path(step)
        if source.exists() and not target.exists():
            link_step(source, target)


def training_seconds(trained: Mapping[str, Any]) -> float:
    """The time of a training, also of one that was interrupted, whose step took the rest only.

    Args:
        trained: The manifest of the training.
    """
    of_epochs = sum(epoch.get("seconds", 0.0) for epoch in trained["training"])
    return max(float(trained["seconds"]), of_epochs)


def link_step(source: Path, target: Path) -> None:
    """Hard links of a finished folder, or copies on another disk; nothing if they are there."""
    manifest = source / MANIFEST
    if (target / MANIFEST).is_file() and (target / MANIFEST).read_bytes() == manifest.read_bytes():
        return
    with atomic_directory(target) as folder:
        shutil.copytree(source, folder, copy_function=_linked, dirs_exist_ok=True)


def _linked(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
