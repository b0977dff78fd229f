"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

Command = Callable[..., None]

force_option = click.option("--force", is_flag=True, help="Run although nothing has changed.")


def experiment_options(command: Command) -> Command:
    """What is run: a file, a folder and changes of the file."""
    for option in reversed(
        (
            click.argument("experiment", type=click.Path(path_type=Path)),
            click.option(
                "--run-dir",
                type=click.Path(path_type=Path),
                help="Folder of the run.  [default: runs/<name of the experiment>]",
            ),
            click.option(
                "--set",
                "overrides",
                multiple=True,
                metavar="KEY=VALUE",
                help="Another value for a key of the file, such as training.epochs=3. Repeatable.",
            ),
        )
    ):
        command = option(command)
    return command


def engine_options(command: Command) -> Command:
    """Where it runs."""
    for option in reversed(
        (
            click.option(
                "--engine",
                type=click.Choice(["local", "ray"]),
                default="local",
                show_default=True,
                help="Run in this process, or in many on a Ray cluster.",
            ),
            click.option(
                "--ray-address",
                default="local",
                show_default=True,
                envvar="RAY_ADDRESS",
                metavar="ADDRESS",
                help="host:port of the Ray cluster, `auto` for the one that runs on this machine, "
                "`local` to start one of this machine's cores.",
            ),
        )
    ):
        command = option(command)
    return command
