"""Compares the metrics of several runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pipelines.metrics import AT_K
from pipelines.report.numbers import ABSENT, count, decimal
from pipelines.report.results import Evaluation
from pipelines.report.tables import calibrated, own_names, places
from pipelines.workflow.run import STEPS

_ALWAYS = ("AUC", "logloss", "calibration")
Metrics = Mapping[str, Any]


def print_comparison(console: Console, runs: list[Path]) -> None:
    """Prints the runs, then a table for each task with a line for each run.

    Raises:
        PipelineError: A folder has no evaluation.
    """
    evaluations = {str(run): Evaluation.read(run / STEPS["evaluate"].folder) for run in runs}
    found = {run: evaluation.metrics for run, evaluation in evaluations.items()}
    console.print(_runs(found))
    if not _have_same_rows(list(evaluations.values())):
        console.print("The runs were evaluated on different rows: compare no numbers.")
    tasks = dict.fromkeys(task for metrics in found.values() for task in metrics["tasks"])
    for task in tasks:
        of_task = {run: m["tasks"][task] for run, m in found.items() if task in m["tasks"]}
        console.print()
        console.print(_numbers(task, of_task))
        for k in places({name: 0 for m in of_task.values() for name in m.get("at_k") or {}}):
            console.print(_order(f"{task}, first {k} places", of_task, k))
        if names := own_names(of_task):
            console.print(_own(f"{task}, your metrics", of_task, names))


def _have_same_rows(evaluations: list[Evaluation]) -> bool:
    """Whether all have the same labels; their data may differ in other columns."""
    if len({(e.metrics["data_hash"], e.metrics["split"]) for e in evaluations}) == 1:
        return True
    first: dict[str, np.ndarray] = {}
    for evaluation in evaluations:
        for task in evaluation.metrics["tasks"]:
            labels = evaluation.task_rows(task).labels
            if not np.array_equal(first.setdefault(task, labels), labels):
                return False
    return True


def _table(title: str, columns: list[str]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column(escape(title), overflow="fold")  # a path may be long
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _runs(found: Mapping[str, Metrics]) -> Table:
    table = _table("run", ["model", "seed", "epoch", "split", "rows"])
    for run, metrics in found.items():
        kept = metrics.get("kept")
        epoch = f"{kept['epoch']} of {kept['epochs']}" if kept else ABSENT
        texts = str(metrics["seed"]), epoch, metrics["split"], count(metrics["rows"])
        table.add_row(escape(run), escape(metrics["model"]), *texts)
    return table


def _numbers(task: str, found: Mapping[str, Metrics]) -> Table:
    cells = {
        run: {
            "AUC": decimal(metrics["auc"]),
            "ceiling": decimal((metrics["ceiling"] or {}).get("auc")),
            "GAUC": decimal(metrics["gauc"]),
            "logloss": decimal(metrics["logloss"]),
            "calibration": calibrated(metrics),
        }
        for run, metrics in found.items()
    }
    names = dict.fromkeys(name for texts in cells.values() for name in texts)
    shown = [n for n in names if n in _ALWAYS or any(c[n] != ABSENT for c in cells.values())]
    table = _table(task, shown)
    for run, texts in cells.items():
        table.add_row(escape(run), *(texts[name] for name in shown))
    return table


def _order(title: str, found: Mapping[str, Metrics], k: int) -> Table:
    table = _table(title, [name.upper() for name in AT_K])
    for run, metrics in found.items():
        at_k = metrics.get("at_k") or {}
        table.add_row(escape(run), *(decimal(at_k.get(f"{name}@{k}")) for name in AT_K))
    return table


def _own(title: str, found: Mapping[str, Metrics], names: list[str]) -> Table:
    table = _table(title, [escape(name) for name in names])
    for run, metrics in found.items():
        own = metrics.get("own", {})
        table.add_row(escape(run), *(decimal(own.get(name)) for name in names))
    return table
