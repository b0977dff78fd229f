"""Compares the metrics of several runs."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pipelines.report.numbers import decimal
from pipelines.report.results import Evaluation
from pipelines.workflow.run import STEPS


def print_comparison(console: Console, runs: list[Path]) -> None:
    """Prints one line per run and task.

    Raises:
        PipelineError: A folder has no evaluation.
    """
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("run", overflow="fold")  # a path may be long
    table.add_column("model", no_wrap=True)
    table.add_column("task", no_wrap=True)
    for column in ("AUC", "ceiling", "GAUC", "logloss", "seed"):
        table.add_column(column, justify="right", no_wrap=True)
    for run in runs:
        metrics = Evaluation.read(run / STEPS["evaluate"].folder).metrics
        for name, task in metrics["tasks"].items():
            table.add_row(
                escape(str(run)),
                escape(metrics["model"]),
                escape(name),
                decimal(task["auc"]),
                decimal((task["ceiling"] or {}).get("auc")),
                decimal(task["gauc"]),
                decimal(task["logloss"]),
                str(metrics["seed"]),
            )
    console.print(table)
