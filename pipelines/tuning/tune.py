"""Searches settings: prints the best trials, writes `tune.json` and the best experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pipelines.common.artifacts import EXPERIMENT, atomic_file, write_json
from pipelines.common.errors import PipelineError
from pipelines.tuning.objective import SPLIT, SearchObjective
from pipelines.tuning.search import LoadedSearch
from pipelines.tuning.study import Study, Trial, short
from pipelines.workflow.about_run import packages_and_machine
from pipelines.workflow.quiet_run import link_step
from pipelines.workflow.run import STEPS

FILE, BEST = "tune.json", "best"
_SHOWN = 10


def ranked(trials: Sequence[Trial], objective: SearchObjective) -> list[Trial]:
    """The trials with a value, each settings once, the best first.

    Raises:
        PipelineError: No trial has a value.
    """
    once = {repr(trial.settings): trial for trial in reversed(trials) if trial.value is not None}
    if not once:
        raise PipelineError(f"All trials failed; the first one: {trials[0].problem}")
    sign = 1 if objective.is_minimised else -1
    return sorted(once.values(), key=lambda trial: (sign * (trial.value or 0.0), trial.number))


def write_trials(
    folder: Path, objective: SearchObjective, trials: Sequence[Trial], about: Mapping[str, Any]
) -> Path:
    """Writes `tune.json`, with the trials so far."""
    values = {
        "metric": objective.metric,
        "tasks": list(objective.tasks),
        "split": SPLIT,
        "better": "lower" if objective.is_minimised else "higher",
        "about": dict(about),
        "trials": [trial._asdict() for trial in trials],
    }
    with atomic_file(folder / FILE) as part:
        write_json(part, values)
    return folder / FILE


def write_best(loaded: LoadedSearch, best: Trial, run: Path, target: Path) -> None:
    """Makes a run folder of the best experiment, with the model that the trial trained.

    Args:
        loaded: The search.
        best: The trial.
        run: Its run folder.
        target: The new one; `recsys-attn run` evaluates it on the test rows and exports it.
    """
    with atomic_file(target / EXPERIMENT) as part:
        write_json(part, loaded.experiment(best.settings).resolved)
    for step in ("ingest", "fit", "train"):
        link_step(run / STEPS[step].folder, target / STEPS[step].folder)


def print_trials(console: Console, objective: SearchObjective, best_first: Sequence[Trial]) -> None:
    """Prints the best trials."""
    better = "lower" if objective.is_minimised else "higher"
    title = f"{objective} of the validation rows; {better} is better"
    table = Table(title=escape(title), title_justify="left", box=None, padding=(0, 1, 0, 0))
    table.add_column("trial", justify="right")
    table.add_column(escape(objective.metric), justify="right")
    for key in best_first[0].settings:
        table.add_column(escape(key), justify="right", overflow="fold")
    table.add_column("minutes", justify="right")
    for trial in best_first[:_SHOWN]:
        cells = [short(value) for value in trial.settings.values()]
        value, minutes = f"{trial.value:.4f}", f"{trial.seconds / 60:.1f}"
        table.add_row(str(trial.number), value, *map(escape, cells), minutes)
    console.print(table)


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
    objective = SearchObjective.of(loaded)
    study = Study(loaded, objective, folder, console)
    about = packages_and_machine()
    trials: list[Trial] = []
    for trial in study.run():
        trials.append(trial)
        file = write_trials(folder, objective, trials, about)
    best_first = ranked(trials, objective)
    write_best(loaded, best_first[0], study.folder(best_first[0]), folder / BEST)
    console.print()
    print_trials(console, objective, best_first)
    return [file, folder / BEST]
