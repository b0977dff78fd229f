"""Compares the metrics of several runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pipelines.metrics import AT_K, Difference
from pipelines.metrics.intervals import auc_influence, difference, mean_influence
from pipelines.metrics.probability import row_losses
from pipelines.report.numbers import ABSENT, count, decimal
from pipelines.report.results import Evaluation
from pipelines.report.tables import calibrated, margin, own_names, places
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
    same = _have_same_rows(list(evaluations.values()))
    if not same:
        console.print("The runs were evaluated on different rows: compare no numbers.")
    tasks = dict.fromkeys(task for metrics in found.values() for task in metrics["tasks"])
    for task in tasks:
        of_task = {run: m["tasks"][task] for run, m in found.items() if task in m["tasks"]}
        console.print()
        console.print(_numbers(task, of_task))
        if same and len(of_task) > 1:
            console.print(_against_first(task, {run: evaluations[run] for run in of_task}))
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
            "±95%": decimal(margin(metrics)),
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


def _against_first(task: str, evaluations: Mapping[str, Evaluation]) -> Table:
    """Differences to the first run, with intervals for rows that depend on each other."""
    (_, before), *others = evaluations.items()
    group = before.metrics.get("group") or "request"
    start, of_first = before.metrics["tasks"][task], before.task_rows(task)
    clusters = before.clusters(task)
    table = _table("against first", ["AUC", "95 % by " + group, "p", "logloss", "95 %"])
    for run, evaluation in others:
        now, rows = evaluation.metrics["tasks"][task], evaluation.task_rows(task)
        cells = []
        if None not in (start["auc"], now["auc"]):
            pair = (auc_influence(each.labels, each.scores, clusters) for each in (rows, of_first))
            found = difference(*pair)
            cells += [f"{found.value:+.4f}", _ends(found), f"{found.p:.3f}"]
        else:
            cells += [ABSENT] * 3
        if None not in (start["logloss"], now["logloss"]):
            pair = (
                mean_influence(row_losses(each.labels, each.scores), clusters)
                for each in (rows, of_first)
            )
            found = difference(*pair)
            cells += [f"{found.value:+.4f}", _ends(found)]
        table.add_row(escape(run), *cells)
    return table


def _ends(found: Difference) -> str:
    return f"{found.low:+.4f} to {found.high:+.4f}"


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
