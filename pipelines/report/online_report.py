"""The online report: a table on the console and one HTML file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from pipelines.common.artifacts import atomic_file
from pipelines.metrics import METRICS
from pipelines.report import online_plots
from pipelines.report.html import environment
from pipelines.report.metric_tables import text_of
from pipelines.report.numbers import ABSENT, count, decimal, number_table, percent
from pipelines.report.online_plots import MOST_VERSIONS, version_name
from pipelines.report.plots import Picture

Part = Mapping[str, Any]
_METRICS = METRICS.where("summary")
_MOST_FEATURES = 6  # of pictures: those whose missing values move most


def write_online_report(result: Mapping[str, Any], name: str, out_file: Path) -> None:
    """Writes a self-contained HTML file of the results of `measure_online`.

    Args:
        result: Its result.
        name: The experiment's name.
        out_file: The file to write.
    """
    newest = result["versions"][-MOST_VERSIONS:]
    page = (
        environment()
        .get_template("online.html")
        .render(
            name=name,
            found=result,
            heads=[metric.label or metric.name for metric in _METRICS],
            tasks={task: _table(result, task) for task in result["whole"]["tasks"]},
            pictures={task: _of_task(newest, task) for task in result["whole"]["tasks"]},
            data=_of_data(newest),
            lines=list(_lines(result)),
            note=group_note(result),
        )
    )
    with atomic_file(out_file) as part:
        part.write_text(page, encoding="utf-8")


def print_online(console: Console, result: Mapping[str, Any]) -> None:
    """Prints a line of metrics for each version and task, and one of the data of each version."""
    title = f"{result['model']}: {result['first'][:13]} to {result['last'][:13]} (UTC)"
    heads = ["rows", *(metric.label or metric.name for metric in _METRICS)]
    for task in result["whole"]["tasks"]:
        table = number_table(task, heads, title)
        for label, cells, is_whole in _table(result, task):
            rows, _, *metrics = cells  # without the positives, to fit a narrow terminal
            table.add_row(escape(label), rows, *metrics, style="dim" if is_whole else "")
        console.print(table)
        title = ""
    table = number_table(
        "version", ("answers", "degraded", "lag, median", "lag, 99 %", "missing most")
    )
    for label, cells in _lines(result):
        table.add_row(escape(label), *cells)
    console.print(table)
    if result["group_missing"] is not None:
        console.print(f"  {escape(group_note(result))}", soft_wrap=True)


def group_note(result: Mapping[str, Any]) -> str:
    """A sentence on the groups of GAUC."""
    missing = result["group_missing"]
    if missing is None:
        return f"GAUC and intervals by {result['group']}."
    return (
        f"GAUC and intervals by {result['group']}: the rows have no {missing!r}, as it is neither "
        "a feature nor a key of the state."
    )


def _table(result: Mapping[str, Any], task: str) -> list[tuple[str, list[str], bool]]:
    """The lines of a task: name, cells, and whether it is of all rows."""
    return [
        (name, _cells(part["tasks"][task]), is_whole) for name, part, is_whole in _parts(result)
    ]


def _parts(result: Mapping[str, Any]) -> Iterator[tuple[str, Part, bool]]:
    for version in result["versions"]:
        yield version_name(version), version, False
    if len(result["versions"]) > 1:
        yield "all", result["whole"], True


def _cells(metrics: Part) -> list[str]:
    cells = [count(metrics["rows"]), count(metrics["positives"])]
    for metric in _METRICS:
        ends = metrics["intervals"][metric.name]
        margin = "" if ends is None else f" ±{decimal((ends[1] - ends[0]) / 2)}"
        cells.append(text_of(metrics, metric) + margin)
    return cells


def _lines(result: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """The answers of each version: degraded ones, the lag, and the feature that is missing most."""
    for name, part, _ in _parts(result):
        store = part["store"]
        feature, share = max(part["missing"].items(), key=lambda one: one[1], default=("", 0.0))
        yield (
            name,
            [
                count(store["answers"]),
                percent(store["degraded"]),
                *(_seconds(store[lag]) for lag in ("lag_median", "lag_99")),
                f"{feature} {percent(share)}" if share else ABSENT,
            ],
        )


def _seconds(value: float | None) -> str:
    return ABSENT if value is None else f"{value:,.1f} s"


def _of_task(versions: Sequence[Part], task: str) -> dict[str, Picture]:
    """The pictures of a task's metrics that its data defines, by title."""
    pictures = {}
    for metric in _METRICS:
        values = (p["tasks"][task][metric.name] for v in versions for p in v["periods"])
        if any(value is not None for value in values):
            perfect = 1.0 if metric.better == "one" else None
            of = (versions, task, metric.name, perfect)
            pictures[metric.title] = online_plots.metric_over_time(*of)
    return pictures


def _of_data(versions: Sequence[Part]) -> dict[str, Picture]:
    """The pictures of missing values that move most, and of the store, by title."""
    periods = [part for version in versions for part in version["periods"]]
    spans = {}
    for feature in periods[0]["missing"]:
        shares = [part["missing"][feature] for part in periods]
        spans[feature] = max(shares) - min(shares)
    moved = sorted((name for name in spans if spans[name]), key=lambda name: -spans[name])
    pictures = {
        f"{feature}, missing": online_plots.share_over_time(versions, feature)
        for feature in moved[:_MOST_FEATURES]
    }
    if any(part["store"]["degraded"] for part in periods):
        pictures["Degraded answers"] = online_plots.degraded_over_time(versions)
    if any(part["store"]["lag_99"] is not None for part in periods):
        pictures["Lag of the state"] = online_plots.lag_over_time(versions)
    return pictures
