"""Prints the metrics as a table."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pipelines.report.numbers import ABSENT, below, count, decimal

COLUMNS = ("rows", "positives", "AUC", "ceiling", "distance", "GAUC", "logloss", "calibration")
ALWAYS = ("rows", "positives", "AUC", "logloss", "calibration")


def print_metrics(console: Console, metrics: Mapping[str, Any]) -> None:
    """Prints one line per task, and below it one per baseline.

    Columns without values, such as the ceiling, are left out, to fit a narrow terminal.

    Args:
        console: The console.
        metrics: The content of an evaluation's metrics.json.
    """
    rows = list(_rows(metrics["tasks"]))
    title = f"{metrics['name']}: {metrics['model']} on {metrics['split']}"
    table = Table(title=escape(title), title_justify="left", box=None, padding=(0, 1, 0, 0))
    table.add_column("task", overflow="fold")
    shown = [
        name
        for index, name in enumerate(COLUMNS)
        if name in ALWAYS or any(cells[index] not in ("", ABSENT) for _, cells, _ in rows)
    ]
    for column in shown:
        table.add_column(column, justify="right", no_wrap=True)
    for label, cells, style in rows:
        by_name = dict(zip(COLUMNS, cells, strict=True))
        table.add_row(escape(label), *(by_name[name] for name in shown), style=style)
    console.print(table)
    print_own_metrics(console, metrics["tasks"])


def print_own_metrics(console: Console, tasks: Mapping[str, Any]) -> None:
    """Prints the user's metrics, one line per task, if there are any."""
    names = own_names(tasks)
    if not names:
        return
    table = Table(title="your metrics", title_justify="left", box=None, padding=(0, 1, 0, 0))
    table.add_column("task", overflow="fold")
    for name in names:
        table.add_column(escape(name), justify="right", no_wrap=True)
    for task, found in tasks.items():
        table.add_row(escape(task), *(decimal(found["own"].get(name)) for name in names))
    console.print(table)


def own_names(tasks: Mapping[str, Any]) -> list[str]:
    """The names of the user's metrics."""
    return list(dict.fromkeys(name for task in tasks.values() for name in task.get("own", {})))


def _rows(tasks: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """Label, a cell for each of `COLUMNS`, and style."""
    for name, task in tasks.items():
        yield name, _model_cells(task), ""
        for baseline, found in task["baselines"].items():
            cells = dict.fromkeys(COLUMNS, "")
            cells["AUC"], cells["GAUC"] = decimal(found.get("auc")), decimal(found.get("gauc"))
            yield f"  {baseline}", tuple(cells.values()), "dim"


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
