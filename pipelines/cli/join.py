"""`recsys-attn join`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape

from pipelines.cli.command_options import engine_options
from pipelines.cli.running import CONSOLE, opened_ranking

if TYPE_CHECKING:
    from pipelines.outcomes.join import Joined


@click.command()
@click.argument("log", metavar="LOG_FOLDER")
@click.option(
    "--run",
    required=True,
    type=click.Path(path_type=Path),
    help="Run of the served model: its folder, or its experiment.",
)
@click.option(
    "--outcomes",
    required=True,
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    help="Parquet and JSON-lines files of events: the columns that name a row, a time, labels.",
)
@click.option(
    "--window",
    required=True,
    help="Time after a request in which an outcome belongs to it, such as 30m, 12h or 7d.",
)
@click.option(
    "--output",
    "target",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of rows to write: a Parquet file for each hour (UTC).",
)
@click.option(
    "--by",
    multiple=True,
    metavar="COLUMN",
    help="Column that names the row of an outcome. Repeatable.  [default: the request id and the "
    "item's key if outcomes have a request id, else the keys of the user and the item]",
)
@click.option("--model", help="Model name in the log.  [default: the only one, or the export's]")
@engine_options
def join(run: Path, engine: str, ray_address: str, **options: Any) -> None:
    """Join served requests with outcomes: training rows.

    An hour is written when its window is over, and again when its outcomes come late.
    """
    with opened_ranking(run, None, ()) as steps:
        from pipelines.engines import choose_engine
        from pipelines.workflow.join import JoinOptions, join_log

        runner = choose_engine(engine, ray_address, steps.experiment.own_parts)
        _show(join_log(steps, JoinOptions(**options), runner), options["target"])


def _show(joined: Joined, target: Path) -> None:
    """Prints what was written, and what could not be used."""
    hours = [joined.manifest.hours[name] for name in joined.written]
    rows = sum(hour["rows"] for hour in hours)
    waiting = f", {len(joined.waiting)} with an open window" if joined.waiting else ""
    CONSOLE.print(
        f"[bold]join[/bold]: {len(hours)} hours written{waiting}, {rows:,} rows  "
        f"[dim]{escape(str(target))}[/dim]",
        soft_wrap=True,
    )
    for label in hours[0]["positives"] if rows else ():
        share = sum(hour["positives"][label] for hour in hours) / rows
        CONSOLE.print(f"  {label}: {share:.2%} of the rows")
    for sentence in joined.remarks():
        CONSOLE.print(f"[bold yellow]Left out:[/bold yellow] {escape(sentence)}", soft_wrap=True)
