"""The command `pretrain`."""

from __future__ import annotations

from pathlib import Path

import click

from pipelines.cli.command_options import experiment_options, force_option
from pipelines.cli.running import opened_sequences


@click.command()
@experiment_options
@click.option(
    "--step",
    "names",
    type=click.Choice(("ingest", "fit", "train", "evaluate", "export")),
    multiple=True,
    help="Run this step alone. Repeatable.  [default: all, in order]",
)
@force_option
def pretrain(
    experiment: Path,
    run_dir: Path | None,
    overrides: tuple[str, ...],
    names: tuple[str, ...],
    force: bool,
) -> None:
    """Run a sequence model's steps, as `run` does.

    EXPERIMENT is a TOML file with `[data] source = "events"`, which run, ingest, fit, train,
    evaluate and export take too.
    """
    with opened_sequences(experiment, run_dir, overrides, force) as steps:
        steps.take(names) if names else steps.everything()
