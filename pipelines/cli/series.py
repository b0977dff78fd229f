"""The commands that train many models: `reproduce` remakes a board, `tune` searches settings."""

from __future__ import annotations

from pathlib import Path

import click
from rich.markup import escape

from pipelines.calls.import_tensorflow import import_tensorflow
from pipelines.cli.command_options import engine_options
from pipelines.cli.running import CONSOLE, reported


@click.command()
@click.argument("board")
@click.option(
    "--seeds",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    help="Trainings of each model: with the experiment's seed, and those after it.",
)
@click.option(
    "--model",
    "models",
    metavar="NAME",
    multiple=True,
    help="A model of the board; give it again for more.  [default: all]",
)
@click.option(
    "--run-dir",
    type=click.Path(path_type=Path),
    help="Folder of all runs and of the table.  [default: runs/boards/BOARD]",
)
@engine_options
def reproduce(
    board: str,
    seeds: int,
    models: tuple[str, ...],
    run_dir: Path | None,
    engine: str,
    ray_address: str,
) -> None:
    """Remake a board: models and seeds beside published numbers.

    BOARD is a TOML file, or the name of one in experiments/boards, such as frappe. Finished runs
    are kept, so the same command goes on where it was interrupted, or adds seeds.
    """
    with reported():
        import_tensorflow()
        from pipelines.boards.board import load_board
        from pipelines.boards.remake import remake
        from pipelines.common.artifacts import locked
        from pipelines.engines import choose_engine
        from pipelines.scoring.microbatches import one_thread_each

        one_thread_each()
        loaded = load_board(board)
        folder = run_dir or loaded.folder
        with locked(folder):
            runner = choose_engine(engine, ray_address)
            files = remake(loaded, models, seeds, folder, CONSOLE, runner)
        places = "  ".join(escape(str(path)) for path in files)
        CONSOLE.print(f"[bold]reproduce[/bold]: written  [dim]{places}[/dim]", soft_wrap=True)


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--run-dir",
    type=click.Path(path_type=Path),
    help="Folder of all runs and of the result.  [default: runs/tune/NAME OF FILE]",
)
def tune(file: Path, run_dir: Path | None) -> None:
    """Search settings of an experiment by validation rows.

    FILE is a TOML file with the experiment, the ranges of its keys, and the metric. The same
    command goes on where it was interrupted; with more trials in the file it adds them.
    """
    with reported():
        import_tensorflow()
        from pipelines.common.artifacts import locked
        from pipelines.scoring.microbatches import one_thread_each
        from pipelines.tuning.search import load_search
        from pipelines.tuning.tune import tune as search

        one_thread_each()
        loaded = load_search(file)
        folder = run_dir or Path("runs/tune") / loaded.name
        with locked(folder):
            written, best = search(loaded, folder, CONSOLE)
        CONSOLE.print(
            f"[bold]tune[/bold]: written  [dim]{escape(str(written))}[/dim]  the best: "
            f"[dim]recsys-attn run {escape(str(best))}[/dim]",
            soft_wrap=True,
        )
