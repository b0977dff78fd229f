"""The segments of an evaluation: the worst ones on the console, all of them on the page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pipelines.metrics.metric import METRICS, Metric
from pipelines.report.metric_tables import margin, text_of
from pipelines.report.numbers import ABSENT, count, decimal, number_table

SHOWN = 5
Segment = Mapping[str, Any]


def print_segments(console: Console, metrics: Mapping[str, Any]) -> None:
    """Prints the worst segments of each task.

    Args:
        console: The console.
        metrics: The content of an evaluation's metrics.json.
    """
    for task, metrics_of_task in metrics["tasks"].items():
        if metrics_of_task.get("segments"):
            console.print(worst_segments(task, metrics_of_task["segments"]))


def worst_segments(task: str, segments: list[Segment]) -> Table:
    """The segments whose AUC is most surely below that of the other rows.

    They are sorted by the upper end of the interval of the difference; those with few rows are
    the last ones, as their intervals do not hold.

    Args:
        task: The task.
        segments: Its segments in metrics.json.
    """
    several = f"worst of {len(segments)}" if len(segments) > SHOWN else f"{len(segments)}"
    worst = sorted(segments, key=_badness)[:SHOWN]
    rows = [_cells(segment) for segment in worst]
    title = f"{task}: {several} segments; * differs from the other rows"
    table = number_table("segment", rows[0], title)
    for entry, cells in zip(worst, rows, strict=True):
        style = "dim" if entry["few"] else ""
        table.add_row(escape(titled(entry)), *cells.values(), style=style)
    return table


def shown_in_segments(task: Mapping[str, Any]) -> list[Metric]:
    """The metrics of segments that a task has."""
    metrics = METRICS.where("segments")
    return [m for m in metrics if task["logloss"] is not None or not m.needs_probabilities]


def _cells(segment: Segment) -> dict[str, str]:
    """The texts of a segment by column."""
    cells = {"rows": count(segment["rows"]) + (" few" if segment["few"] else "")}
    for metric in METRICS.where("segments"):
        if metric.is_of_all_rows:
            cells[metric.label or metric.name] = text_of(segment, metric)
        if "rest" in metric.where:
            difference = f"{metric.name}_difference"
            column = "to rest" if metric.is_of_all_rows else metric.label
            cells[column] = signed(segment, difference)
            if metric.is_of_all_rows:
                cells["±95%"] = decimal(margin(segment, difference))
    return cells


def titled(segment: Segment) -> str:
    """The name of a segment, with the values that it does not say."""
    return segment["name"] + (f" ({segment['range']})" if segment["range"] else "")


def signed(segment: Segment, metric: str) -> str:
    """A difference with its sign, and a star if its interval leaves out 0."""
    value = segment[metric]
    return ABSENT if value is None else f"{value:+.4f}" + ("*" if sign(segment, metric) else "")


def sign(segment: Segment, metric: str) -> int:
    """1 or -1 if the whole interval of a difference is on that side of 0, else 0."""
    ends = segment["intervals"].get(metric)
    if ends is None or segment["few"]:
        return 0
    return int(ends[0] > 0) - int(ends[1] < 0)


def mark(segment: Segment) -> str:
    """`few`, `worse` or `better` than the other rows, or an empty text.

    AUC decides; where it says nothing, the excess of logloss.
    """
    if segment["few"]:
        return "few"
    return judged(segment, "auc_difference") or judged(segment, "excess_logloss_difference")


def judged(segment: Segment, metric: str) -> str:
    """`worse` or `better` if the difference leaves out 0, or an empty text.

    An excess of logloss is worse if it is further from 0 than that of the other rows: above 0 the
    probabilities are too low or in the wrong order, below 0 they are too high.
    """
    side = sign(segment, metric)
    known = METRICS[metric.removesuffix("_difference")]
    if side and known.better == "zero":
        value = segment[known.name]
        side = 1 if abs(value) < abs(value - segment[metric]) else -1
    return {-1: "worse", 0: "", 1: "better"}[side]


def _badness(segment: Segment) -> tuple[bool, float]:
    ends = segment["intervals"].get("auc_difference")
    return segment["few"], float("inf") if ends is None else ends[1]
