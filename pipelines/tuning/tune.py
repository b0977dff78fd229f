"""Searches settings and writes the result."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from pipelines.common.artifacts import versions
from pipelines.report.data import machine_text
from pipelines.tuning.objective import Objective
from pipelines.tuning.result import BEST, print_trials, ranked, write_best, write_trials
from pipelines.tuning.search import LoadedSearch
from pipelines.tuning.study import Study, Trial
from pipelines.workflow.about_run import this_machine


def tune(loaded: LoadedSearch, folder: Path, console: Console) -> list[Path]:
    """Trains the trials of a search; prints and writes the best.

    `tune.json` is written after each trial, so that a search that is cut short leaves it.

    Args:
        loaded: The search.
        folder: The folder of all runs and of the files.
        console: Shows the progress and the table.

    Returns:
        `tune.json`, and the run folder of the best experiment.

    Raises:
        PipelineError: The metric is unknown, Optuna is not installed, or all trials fail.
    """
    objective = Objective.of(loaded)
    study = Study(loaded, objective, folder, console)
    about = {
        "packages": ", ".join(f"{name} {number}" for name, number in versions().items()),
        "machine": machine_text(this_machine()),
    }
    trials: list[Trial] = []
    for trial in study.run():
        trials.append(trial)
        file = write_trials(folder, objective, trials, about)
    best_first = ranked(trials, objective)
    write_best(loaded, best_first[0], study.folder(best_first[0]), folder / BEST)
    console.print()
    print_trials(console, objective, best_first)
    return [file, folder / BEST]
