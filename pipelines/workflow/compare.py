"""Compares the metrics of several runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pipelines.common.errors import PipelineError
from pipelines.metrics import AT_K
from pipelines.report.against import compared
from pipelines.report.compared_models import Side, check_same_rows, sides_of
from pipelines.report.comparison import TaskComparison
from pipelines.report.metric_tables import columns_of, own_names, places, summary_cells
from pipelines.report.numbers import ABSENT, count, decimal, number_table
from pipelines.report.results import Evaluation
from pipelines.report.slice_tables import effect_ends
from pipelines.workflow.run import STEPS
from serving.state.errors import DataError

Metrics = Mapping[str, Any]
_GAP = 2  # blanks between columns


def print_comparison(console: Console, runs: list[Path]) -> None:
    """Prints the runs, then a table for each task with a line for each run.

    Raises:
        PipelineError: A folder has no evaluation.
    """
    evaluations = _evaluations(runs)
    by_run = {run: evaluation.metrics for run, evaluation in evaluations.items()}
    console.print(_runs(by_run))
    tasks = dict.fromkeys(task for metrics in by_run.values() for task in metrics["tasks"])
    verdicts = []
    for task in tasks:
        of_task = {run: m["tasks"][task] for run, m in by_run.items() if task in m["tasks"]}
        console.print()
        console.print(_numbers(task, of_task))
        together = {run: evaluations[run] for run in of_task}
        problem = _not_comparable(together)
        if problem:
            console.print(escape(problem))
        elif len(together) > 1:
            models = [Side({run: evaluation}) for run, evaluation in together.items()]
            console.print(_against_first(TaskComparison(task, models), models))
            verdicts += _verdicts(task, sides_of(together))
        for k in places({name: 0 for m in of_task.values() for name in m.get("at_k") or {}}):
            console.print(_order(f"{task}, first {k} places", of_task, k))
        if names := own_names(of_task):
            console.print(_own(f"{task}, your metrics", of_task, names))
    if verdicts:
        console.print()
    for verdict in verdicts:
        console.print(escape(verdict))


def compare_runs(runs: Sequence[Path]) -> dict[str, Any] | None:
    """The first run against the others, as the page shows it; None without others.

    Raises:
        PipelineError: A folder has no evaluation, a run is named twice, or the runs were evaluated
            on different rows.
    """
    resolved = [run.resolve() for run in runs]
    for place, run in enumerate(resolved):
        if run in resolved[:place]:
            raise PipelineError(f"--against: {runs[place]} is compared with itself. Name another.")
    return compared(_evaluations(runs)) if len(runs) > 1 else None


def _evaluations(runs: Sequence[Path]) -> dict[str, Evaluation]:
    return {str(run): Evaluation.read(run / STEPS["evaluate"].folder) for run in runs}


def _not_comparable(evaluations: Mapping[str, Evaluation]) -> str:
    """Why the rows of the evaluations are not the same, or an empty text."""
    try:
        check_same_rows(evaluations)
    except DataError as error:
        return str(error)
    return ""


def _verdicts(task: str, sides: list[Side]) -> list[str]:
    """Each side against the first one in words; of one side, the spread between its seeds."""
    first, *others = sides
    compared = TaskComparison(task, sides)
    if not others:
        return [f"{task}: {compared.spread(first)}"] if len(first.runs) > 1 else []
    return [compared.verdict(side, first) for side in others]


def _runs(by_run: Mapping[str, Metrics]) -> Table:
    heads = ("model", "seed", "epoch", "validation", "split", "rows")
    table = number_table("run", heads, gap=_GAP)
    for run, metrics in by_run.items():
        epoch_of_run = metrics.get("kept")
        epoch = f"{epoch_of_run['epoch']} of {epoch_of_run['epochs']}" if epoch_of_run else ABSENT
        reached = decimal(epoch_of_run and epoch_of_run.get("value"))
        texts = str(metrics["seed"]), epoch, reached, metrics["split"], count(metrics["rows"])
        table.add_row(escape(run), escape(metrics["model"]), *texts)
    return table


def _numbers(task: str, by_run: Mapping[str, Metrics]) -> Table:
    cells = {run: summary_cells(metrics) for run, metrics in by_run.items()}
    heads = columns_of(cells.values())
    table = number_table(task, heads, gap=_GAP)
    for run, texts in cells.items():
        table.add_row(escape(run), *(texts[name] for name in heads))
    return table


def _against_first(compared: TaskComparison, sides: list[Side]) -> Table:
    """Differences to the first run, with intervals for rows that depend on each other."""
    first, *others = sides
    heads = ("AUC", f"95 % by {compared.unit}", "p", "logloss", "95 %")
    table = number_table("against first", heads, gap=_GAP)
    for side in others:
        differences = compared.differences(side, first)
        cells = []
        if order := differences.get("auc"):
            cells = [f"{order['difference']:+.4f}", effect_ends(order), f"{order['p']:.3f}"]
        if loss := differences.get("logloss"):
            cells += [f"{loss['difference']:+.4f}", effect_ends(loss)]
        table.add_row(escape(side.name), *(cells or [ABSENT] * 3))
    return table


def _order(title: str, by_run: Mapping[str, Metrics], k: int) -> Table:
    table = number_table(title, map(str.upper, AT_K), gap=_GAP)
    for run, metrics in by_run.items():
        at_k = metrics.get("at_k") or {}
        table.add_row(escape(run), *(decimal(at_k.get(f"{name}@{k}")) for name in AT_K))
    return table


def _own(title: str, by_run: Mapping[str, Metrics], names: list[str]) -> Table:
    table = number_table(title, names, gap=_GAP)
    for run, metrics in by_run.items():
        values = metrics.get("own", {})
        table.add_row(escape(run), *(decimal(values.get(name)) for name in names))
    return table
