"""The command that audits an exported model."""

from __future__ import annotations

from pathlib import Path

import click
from rich.markup import escape

from pipelines.calls.import_tensorflow import import_tensorflow
from pipelines.cli.running import CONSOLE, reported


@click.command()
@click.argument("export", type=click.Path(path_type=Path))
@click.argument("rows", type=click.Path(path_type=Path))
@click.option(
    "--output",
    required=True,
    type=click.Path(path_type=Path),
    help="Folder to write: report.html, metrics.json and predictions.parquet.",
)
@click.option(
    "--request", help="Column of the request id, whose rows follow each other.  [default: none]"
)
@click.option(
    "--group",
    help="Column of the groups of GAUC and of the intervals, usually the user.  [default: the "
    "request]",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the samples.")
def audit(
    export: Path, rows: Path, output: Path, request: str | None, group: str | None, seed: int
) -> None:
    """Evaluate an export on labelled rows; write report.html.

    EXPORT is the folder of a version, ROWS a Parquet file or a folder of them with the raw features
    and the labels. Scores and weights of attention are those of the export's own signatures.
    """
    with reported():
        import_tensorflow()
        from pipelines.exported.audit_export import audit_export
        from pipelines.exported.labelled_rows import LabelledRows

        page = audit_export(export, LabelledRows(rows, request, group), output, CONSOLE, seed)
        CONSOLE.print(
            f"[bold]audit[/bold]: written  [dim]{escape(str(page))}[/dim]", soft_wrap=True
        )
