"""The metrics as a table on the screen."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pipelines.report.evaluation import complete
from pipelines.report.numbers import below, count, decimal

COLUMNS = ("rows", "positives", "AUC", "ceiling", "distance", "GAUC", "logloss", "calibration")


def print_metrics(console: Console, metrics: Mapping[str, Any]) -> None:
    """Prints one line per task, and below it one per baseline.

    Args:
        console: Where to print.
        metrics: The content of an evaluation's metrics.json.

    Raises:
        ValueError: A key of metrics.json is missing.
    """
    metrics = complete(metrics)
    title = f"{metrics['name']}: {metrics['model']} on {metrics['split']}"
    table = Table(title=escape(title), title_justify="left", box=None, padding=(0, 1, 0, 0))
    table.add_column("task")
    for column in COLUMNS:
        table.add_column(column, justify="right", no_wrap=True)
    for name, task in metrics["tasks"].items():
        table.add_row(escape(name), *_model_cells(task))
        for baseline, found in task["baselines"].items():
            cells = dict.fromkeys(COLUMNS, "")
            cells["AUC"], cells["GAUC"] = decimal(found.get("auc")), decimal(found.get("gauc"))
            table.add_row(f"  {escape(baseline)}", *cells.values(), style="dim")
    console.print(table)


def _model_cells(task: Mapping[str, Any]) -> tuple[str, ...]:
    ceiling = (task["ceiling"] or {}).get("auc")
    return (
        count(task["rows"]),
        count(task["positives"]),
        decimal(task["auc"]),
        decimal(ceiling),
        decimal(below(ceiling, task["auc"])),
        decimal(task["gauc"]),
        decimal(task["logloss"]),
        decimal(task["calibration"], 3),
    )
