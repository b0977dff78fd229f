"""Prints the metrics as a table."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pipelines.metrics import AT_K, METRICS
from pipelines.metrics.metric import Metric
from pipelines.report.numbers import ABSENT, count, decimal, number_table

_MARGIN, _CEILING = "±95%", "ceiling"  # of the first metric
Cells = Mapping[str, str]  # text by column


def print_metrics(console: Console, metrics: Mapping[str, Any]) -> None:
    """Prints one line per task, and below it one per baseline; then the metrics at k.

    Columns without values, such as the ceiling, are left out, to fit a narrow terminal.

    Args:
        console: The console.
        metrics: The content of an evaluation's metrics.json.
    """
    rows = list(_rows(metrics["tasks"]))
    title = f"{metrics['name']}: {metrics['model']} on {metrics['split']}"
    if metrics.get("drawn_negatives"):
        title += f", sampled: {metrics['drawn_negatives']:,} drawn negatives a request"
    heads = columns_of(cells for _, cells, _ in rows)
    table = number_table("task", heads, title)
    for label, cells, style in rows:
        texts = (cells.get(name, "") for name in heads)
        table.add_row(escape(label), *texts, style=style)
    console.print(table)
    if any(task.get("at_k") for task in metrics["tasks"].values()):
        console.print(_places(metrics["tasks"]))
    if own_names(metrics["tasks"]):
        console.print(_own(metrics["tasks"]))


def columns_of(rows: Iterable[Cells]) -> list[str]:
    """The columns that have a value, and those that each table shows."""
    rows = list(rows)
    always = {"rows", "positives", *(m.label or m.name for m in METRICS.where("summary"))}
    always -= {m.label for m in METRICS.values() if m.unit != "rows"}
    names = dict.fromkeys(name for cells in rows for name in cells)
    present = {name for cells in rows for name, text in cells.items() if text != ABSENT}
    return [name for name in names if name in always or name in present]


def margin(task: Mapping[str, Any], metric: str = "auc") -> float | None:
    """Half of the width of the 95 % interval of a metric."""
    ends = task.get("intervals", {}).get(metric)
    return None if ends is None else (ends[1] - ends[0]) / 2


def text_of(metrics: Mapping[str, Any], metric: Metric) -> str:
    """The value of a metric; calibration is marked `high` or `low` if it is off."""
    if metric.better != "one":
        return decimal(metrics.get(metric.name))
    off = metrics.get("calibration_off")
    return decimal(metrics.get(metric.name), 3) + (f" {off}" if off else "")


def _places(tasks: Mapping[str, Any]) -> Table:
    """The metrics at k, over the requests with a positive and a negative."""
    table = number_table("task", ["k", "requests", *map(str.upper, AT_K)], "order within requests")
    for name, task in tasks.items():
        for k in places(task.get("at_k") or {}):
            rows = {name: task, **{f"  {n}": metrics for n, metrics in ordered(task).items()}}
            for label, metrics in rows.items():
                numbers = (decimal(metrics["at_k"].get(f"{metric}@{k}")) for metric in AT_K)
                is_model = metrics is task
                requests = count(task["ranked_requests"]) if is_model else ""
                style = "" if is_model else "dim"
                table.add_row(escape(label), str(k), requests, *numbers, style=style)
    return table


def _own(tasks: Mapping[str, Any]) -> Table:
    """The user's metrics."""
    names = own_names(tasks)
    table = number_table("task", names, "your metrics")
    for task, metrics in tasks.items():
        table.add_row(escape(task), *(decimal(metrics["own"].get(name)) for name in names))
    return table


def own_names(tasks: Mapping[str, Any]) -> list[str]:
    """The names of the user's metrics."""
    return list(dict.fromkeys(name for task in tasks.values() for name in task.get("own", {})))


def places(at_k: Mapping[str, float]) -> list[int]:
    """The values of k, from names such as `ndcg@10`."""
    return list(dict.fromkeys(int(name.partition("@")[2]) for name in at_k))


def ordered(task: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The other orders of the task's requests: true probabilities, chance and the baselines."""
    others = {"ceiling": task["ceiling"], "random order": task.get("trivial"), **task["baselines"]}
    return {name: metrics for name, metrics in others.items() if metrics and metrics.get("at_k")}


def _rows(tasks: Mapping[str, Any]) -> Iterator[tuple[str, Cells, str]]:
    """Label, cells and style."""
    for name, task in tasks.items():
        counts = {"rows": count(task["rows"]), "positives": count(task["positives"])}
        yield name, {**counts, **summary_cells(task)}, ""
        trivial = task.get("trivial")
        if trivial and trivial["logloss"] is not None:
            yield "  train rate", _metrics(trivial), "dim"
        for baseline, metrics in task["baselines"].items():
            yield f"  {baseline}", _metrics(metrics), "dim"
        for baseline, metrics in task.get("baseline_models", {}).items():
            yield f"  {baseline}", _metrics(metrics), "dim"


def summary_cells(task: Mapping[str, Any]) -> Cells:
    """The texts of a model by column: its metrics, the margin and the ceiling of the first one."""
    cells, first = _metrics(task), METRICS.where("summary")[0]
    order = first.label
    best = (task["ceiling"] or {}).get(first.name)
    beside = {_MARGIN: decimal(margin(task, first.name)), _CEILING: decimal(best)}
    return {order: cells[order], **beside, **cells}


def _metrics(metrics: Mapping[str, Any]) -> dict[str, str]:
    return {
        metric.label or metric.name: text_of(metrics, metric)
        for metric in METRICS.where("summary")
        if metric.name in metrics
    }
