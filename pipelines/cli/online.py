"""The command of the online report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.markup import escape

from pipelines.cli.command_options import online_options
from pipelines.cli.running import CONSOLE, reported


@click.command()
@online_options
def online(
    rows: str, run: Path, output: Path | None, prometheus: Path | None, **options: Any
) -> None:
    """Report metrics of served rows by version and hour.

    ROWS is the folder that `join` writes. All numbers are by version and period, with intervals;
    they are those of `evaluate` for the same rows.
    """
    with reported():
        from pipelines.calls.opened import loaded
        from pipelines.common.artifacts import write_json

        experiment = loaded(run)
        from pipelines.online.report import OnlineOptions, measure_online
        from pipelines.online.textfile import write_textfile
        from pipelines.report import print_online, write_online_report

        result = measure_online(OnlineOptions(rows, **options), experiment)
        folder = output or (run if run.is_dir() else Path("runs") / experiment.name) / "online"
        folder.mkdir(parents=True, exist_ok=True)
        written = [folder / "online.json", folder / "online.html"]
        write_json(written[0], result)
        write_online_report(result, experiment.name, written[1])
        if prometheus is not None:
            write_textfile(result, prometheus)
            written.append(prometheus)
        print_online(CONSOLE, result)
        places = "  ".join(escape(str(path)) for path in written)
        CONSOLE.print(f"[bold]online[/bold]: written  [dim]{places}[/dim]", soft_wrap=True)
