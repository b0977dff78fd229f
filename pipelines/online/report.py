"""The online report: metrics of served rows by version and period, as plain data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pipelines.common.artifacts import without_nan
from pipelines.common.errors import PipelineError
from pipelines.experiment.config import Experiment
from pipelines.metrics import METRICS, task_metrics
from pipelines.online.cells import Cell, cells_of
from pipelines.online.row_files import RowFiles, utc
from pipelines.online.served_rows import RowColumns, ServedRows
from pipelines.storage.filesystem import Where

Period = Literal["hour", "day"]
_UNITS = {"hour": "h", "day": "D"}
_SHOWN = tuple(metric.name for metric in METRICS.where("summary"))
_KEPT = ("rows", "positives", "clusters", "gauc_groups", *_SHOWN, "calibration_off")
Places = NDArray[np.int64]


@dataclass(frozen=True)
class OnlineOptions:
    """The options of `recsys-attn online`.

    Attributes:
        rows: Folder of the served rows with their outcomes.
        since, until: Only answers in this time.
        period: Period of the numbers over time.
    """

    rows: Where
    since: datetime | None = None
    until: datetime | None = None
    period: Period = "hour"


def measure_online(options: OnlineOptions, experiment: Experiment) -> dict[str, Any]:
    """Measures served rows: of all, by version, and by version and period.

    Args:
        options: The rows.
        experiment: The experiment of the run whose model served them.

    Returns:
        Plain data for the report. The numbers of each task are those of `task_metrics`.

    Raises:
        PipelineError: The rows cannot be read, are of another run, or none are in this time.
    """
    files = RowFiles.open(options.rows)
    columns = RowColumns.of(experiment, files.columns)
    rows = ServedRows(columns)
    cells: dict[tuple[int, str], Cell] = {}
    for hour in files.hours(columns.read, (options.since, options.until)):
        answers = rows.add(hour)
        begin = _in_words(hour.hour, options.period)
        for version, cell in cells_of(hour, answers, columns.features).items():
            cells.setdefault((version, begin), Cell()).add_all(cell)
    if not len(rows):
        raise PipelineError(
            f"{files.storage.name} has no rows in this time. Change --since or --until; `join` "
            "writes an hour when its outcomes are known."
        )
    every = np.arange(len(rows))
    named = experiment.evaluation.group
    return without_nan(
        {
            "model": experiment.export.name or experiment.name,
            "rows_folder": files.storage.name,
            "period": options.period,
            "first": str(rows.hours[0]),
            "last": str(rows.hours[-1]),
            "since": options.since and utc(options.since).isoformat(),
            "until": options.until and utc(options.until).isoformat(),
            "group": columns.group,
            "group_missing": named if named != columns.group else None,
            "whole": _entry(rows, columns, every, cells.values()),
            "versions": list(_by_version(rows, columns, cells, options.period)),
        }
    )


def _by_version(
    rows: ServedRows,
    columns: RowColumns,
    cells: dict[tuple[int, str], Cell],
    period: Period,
) -> Iterator[dict[str, Any]]:
    for version in np.unique(rows.versions).tolist():
        places = np.flatnonzero(rows.versions == version)
        of_version = {begin: cell for (of, begin), cell in cells.items() if of == version}
        begins = rows.hours[places].astype(f"datetime64[{_UNITS[period]}]")
        # The rows are in the order of time, so those of a period follow each other.
        bounds = np.flatnonzero(np.diff(begins).astype(np.int64)) + 1
        periods = zip(of_version.items(), np.split(places, bounds), strict=True)
        yield {
            "version": version,
            "label": rows.served_labels.get(version),
            **_entry(rows, columns, places, of_version.values()),
            "periods": [
                {"begin": begin, **_entry(rows, columns, inside, [cell])}
                for (begin, cell), inside in periods
            ],
        }


def _entry(rows: ServedRows, columns: RowColumns, places: Places, cells: Any) -> dict[str, Any]:
    """The numbers of some rows: metrics by task, missing values and the store."""
    counts = Cell()
    for cell in cells:
        counts.add_all(cell)
    tasks = {
        task.name: _metrics(
            task_metrics(
                rows.labels(place, places),
                rows.scores(place, places),
                groups=rows.groups[places],
                probabilities=task.has_probabilities,
            )
        )
        for place, task in enumerate(columns.tasks)
    }
    return {"rows": places.size, "tasks": tasks, **counts.entry}


def _metrics(metrics: dict[str, Any]) -> dict[str, Any]:
    intervals = {name: metrics["intervals"].get(name) for name in _SHOWN}
    return {**{name: metrics[name] for name in _KEPT}, "intervals": intervals}


def _in_words(hour: np.datetime64, period: Period) -> str:
    """The begin of a period: `2026-11-29 03:00`, or the day."""
    if period == "day":
        return str(hour.astype("datetime64[D]"))
    return str(hour.astype("datetime64[m]")).replace("T", " ")
