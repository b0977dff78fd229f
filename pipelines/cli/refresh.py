"""The commands of the daily loop that decide: `refresh`, and `history` of what was decided."""

from __future__ import annotations

from pathlib import Path

import click
from rich.markup import escape
from rich.table import Table

from pipelines.cli.running import CONSOLE, opened_ranking, reported, values_of
from pipelines.common.errors import PipelineError

_STYLES = {"promoted": "green", "published": "cyan", "refused": "red", "rolled back": "bold red"}
_RUN = click.argument("run", type=click.Path(path_type=Path, file_okay=False))


@click.command()
@_RUN
@click.option(
    "--data",
    "rows",
    required=True,
    type=click.Path(path_type=Path),
    help="Folder of the rows that `recsys-attn join` writes.",
)
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Override a key of the run for this call, such as refresh.rows=5000. Repeatable.",
)
def refresh(run: Path, rows: Path, overrides: tuple[str, ...]) -> None:
    """Take a served run one step further, as a daily job does.

    Promotes the canary or rolls it back, once it has answered enough requests. Without a canary,
    trains the next version on the new rows from the weights of the serving one, compares both on
    the newest rows, and publishes it as canary unless it fails a gate. RUN is the folder of the
    run; RUN/serving.config is the model config file of the server. An interrupted call goes on
    where it was.
    """
    with opened_ranking(run, run, ()) as base:
        from pipelines.refresh.refresh import Refresher

        Refresher(base, rows, values_of(overrides)).refresh()


@click.command()
@_RUN
def history(run: Path) -> None:
    """Print what was decided on the versions of a run, and why."""
    with reported():
        from pipelines.refresh.history import History

        if not run.is_dir():
            raise PipelineError(f"RUN: expected a run's folder. Received: {run}, which is none.")
        decisions = History.of(run)
        if not decisions.decisions:
            CONSOLE.print(f"No decisions yet: `recsys-attn refresh {run} --data ROWS` makes them.")
            return
        table = Table("time (UTC)", "version", "decision", "why")
        for one in decisions.decisions:
            what = f"[{_STYLES.get(one.what, 'default')}]{one.what}[/]"
            time = one.time.removesuffix("+00:00").replace("T", " ")
            table.add_row(time, str(one.version), what, escape("\n".join(one.why)))
        CONSOLE.print(table)
        canary = decisions.canary
        tried = "" if canary is None else f", canary: version {canary.version}"
        CONSOLE.print(f"stable: version {decisions.stable}{tried}")
