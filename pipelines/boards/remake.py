"""Runs a board and writes its table."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from pipelines.boards.board import LoadedBoard
from pipelines.boards.page import print_board, write_board
from pipelines.boards.result import table
from pipelines.boards.runs import BoardRun, run_board
from pipelines.common.artifacts import versions
from pipelines.common.errors import PipelineError, did_you_mean
from pipelines.engines import LOCAL, Engine
from pipelines.report.data import machine_text
from pipelines.workflow.about_run import this_machine


def remake(
    loaded: LoadedBoard,
    models: str | None,
    seeds: int,
    folder: Path,
    console: Console,
    engine: Engine = LOCAL,
) -> list[Path]:
    """Trains and evaluates the models of a board; prints and writes the table.

    The files are written after each seed of all models, so that a night that is cut short leaves
    a table.

    Args:
        loaded: The board.
        models: Names of some of the models, with commas between them; None: all.
        seeds: Number of seeds.
        folder: The folder of all runs and of the files.
        console: Shows the progress and the table.
        engine: Runs the trainings.

    Returns:
        The files.

    Raises:
        PipelineError: A name is unknown, or a run fails.
    """
    names = chosen(loaded, models)
    runs: list[BoardRun] = []
    files: list[Path] = []
    options = "" if models is None else f" --models '{models}'"
    about = {
        "command": f"recsys-attn reproduce {loaded.name} --seeds {seeds}{options}",
        "packages": ", ".join(f"{name} {number}" for name, number in versions().items()),
        "machine": machine_text(this_machine()),
    }
    for run in run_board(loaded, names, seeds, folder, console, engine):
        runs.append(run)
        if len(runs) % len(names) == 0:
            lines = table(loaded, runs)
            files = write_board(folder, loaded, lines, about)
    console.print()
    print_board(console, loaded, lines)
    return files


def chosen(loaded: LoadedBoard, models: str | None) -> list[str]:
    """The names of the models to run.

    Raises:
        PipelineError: A name is unknown.
    """
    known = [model.name for model in loaded.board.models]
    names = known if models is None else [name.strip() for name in models.split(",")]
    for name in names:
        if name not in known:
            raise PipelineError(
                f"--models names {name!r}; expected some of {', '.join(known)}."
                f"{did_you_mean(name, known)}"
            )
    return names
