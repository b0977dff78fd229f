"""The command that searches settings."""

from __future__ import annotations

from pathlib import Path

import click
from rich.markup import escape

from pipelines.calls.import_tensorflow import import_tensorflow
from pipelines.cli.running import CONSOLE, reported


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
