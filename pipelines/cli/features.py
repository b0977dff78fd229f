"""The command that proposes an experiment file for a log."""

from __future__ import annotations

import shlex
from pathlib import Path

import click
from rich.markup import escape

from pipelines.cli.running import CONSOLE, reported
from pipelines.common.errors import PipelineError


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--user", metavar="COLUMN", help="Id of the user.  [default: by the names]")
@click.option("--item", metavar="COLUMN", help="Id of the item.  [default: by the names]")
@click.option("--time", metavar="COLUMN", help="Time of a row.  [default: by type and name]")
@click.option(
    "--request",
    metavar="COLUMN",
    help="Rows of equal values were shown together.  [default: by name and order]",
)
@click.option(
    "--labels",
    default="",
    metavar="COLUMN,...",
    help="Columns of 0 and 1 to predict.  [default: those with the name of an outcome]",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Experiment file to write.  [default: print it]",
)
def features(
    files: tuple[str, ...],
    user: str | None,
    item: str | None,
    time: str | None,
    request: str | None,
    labels: str,
    output: Path | None,
) -> None:
    """Propose an experiment file for a log.

    FILE is a Parquet or CSV file or a folder, several of them, or an experiment file with [data].
    The first 200,000 rows tell the columns' roles; `recsys-attn run` takes the file that is
    written.
    """
    with reported():
        from pipelines.proposal.propose import propose
        from pipelines.proposal.roles import NamedRoles

        if output is not None and output.exists():
            raise PipelineError(f"--output: {output} exists. Name another file, or remove it.")
        of_labels = tuple(name.strip() for name in labels.split(",") if name.strip())
        named = NamedRoles(user, item, time, request, of_labels)
        text = propose(files, named, shlex.join(["recsys-attn", "features", *files]))
        if output is None:
            click.echo(text, nl=False)
        else:
            output.write_text(text, "utf-8")
            place = f"[dim]recsys-attn run {escape(str(output))}[/dim]"
            CONSOLE.print(f"[bold]features[/bold]: written; read it, then {place}", soft_wrap=True)
