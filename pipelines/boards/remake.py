"""Runs a board and writes its table."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from pipelines.boards.board import LoadedBoard
from pipelines.boards.page import print_board, write_board
from pipelines.boards.result import table
from pipelines.boards.runs import BoardRun, run_board
from pipelines.common.errors import PipelineError, check_known
from pipelines.engines import LOCAL, Engine
from pipelines.workflow.about_run import packages_and_machine


def remake(
    loaded: LoadedBoard,
    models: Sequence[str],
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
        models: Names of the models to run; none: all.
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
    command = ["recsys-attn", "reproduce", loaded.given, "--seeds", str(seeds)]
    for name in models:
        command += ["--model", name]
    if folder != loaded.folder:
        command += ["--run-dir", str(folder)]
    about = {"command": shlex.join(command), **packages_and_machine()}
    for run in run_board(loaded, names, seeds, folder, console, engine):
        runs.append(run)
        if len(runs) % len(names) == 0:
            lines = table(loaded, runs)
            # A table of some models leaves that of all as it is.
            name = "board" if len(set(names)) == len(loaded.board.models) else "board-part"
            files = write_board(folder, loaded, lines, about, name)
    console.print()
    print_board(console, loaded, lines)
    compared = {loaded.board.reference_of(m) or "" for m in loaded.board.models if m.name in names}
    for reference in sorted(compared - {"", *names}):
        console.print(
            f"Without {escape(reference)}, the reference, nothing is ahead of it: also give "
            f"--model {escape(shlex.quote(reference))}",
            soft_wrap=True,
        )
    return files


def chosen(loaded: LoadedBoard, models: Sequence[str]) -> list[str]:
    """The names of the models to run; all, if none is given.

    Raises:
        PipelineError: A name is unknown.
    """
    known = [model.name for model in loaded.board.models]
    try:
        check_known("--model", models, known)
    except ValueError as error:
        raise PipelineError(str(error)) from None
    return list(models) or known
