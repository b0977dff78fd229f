"""The model that is exported: with weights in fewer bits, beside the trained one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console

from pipelines.common.errors import PipelineError
from pipelines.common.progress import Progress
from pipelines.evaluation import evaluate as evaluation
from pipelines.experiment.config import Experiment
from pipelines.experiment.export_options import ExportOptions
from pipelines.export.latency import milliseconds, request_call
from pipelines.export.parity import sample_requests
from pipelines.export.serving_module import ServingModule
from pipelines.export.small_weights import shrink
from pipelines.features import FittedFeatures
from pipelines.report.numbers import decimal, number_table
from pipelines.storage.dataset import DataSplit
from recsys_attn.models import RankingModel


def with_export_weights(
    experiment: Experiment,
    data: Path,
    request: str | None,
    trained: tuple[FittedFeatures, RankingModel],
    console: Console,
) -> tuple[RankingModel, dict[str, Any]]:
    """Returns the model to export, and what the manifest holds of it.

    With `export.tables` or `export.tower`, weights have fewer bits: prints size, latency and AUC
    beside those of the trained model, on the evaluated rows.

    Raises:
        PipelineError: A score changes by more than `export.weights_tolerance`.
    """
    fitted, model = trained
    options = experiment.export
    if not options.has_small_weights:
        return model, {}
    small = shrink(model, options)
    named = {"as trained": model, f"tables {options.tables}, tower {options.tower}": small}
    split = DataSplit(data / experiment.evaluation.split)
    plain = experiment.model_copy(update={"evaluation": experiment.evaluation.metrics_only})
    predictions, summaries = zip(
        *(
            evaluation.evaluate(plain, split, request, fitted, one, Progress(console))
            for one in named.values()
        ),
        strict=True,
    )
    change = _largest_change(predictions, [task.name for task in experiment.tasks])
    _check(change, options)
    rows = sample_requests(fitted.raw_schema, split, request, 1)[0]
    modules = [ServingModule(one, fitted).signatures() for one in named.values()]
    times = milliseconds([request_call(one, fitted.raw_schema, rows) for one in modules])
    measured = {
        name: {
            "bytes": sum(weight.numpy().nbytes for weight in one.weights),
            "milliseconds": milliseconds,
            "auc": {task: metrics["auc"] for task, metrics in summary["tasks"].items()},
        }
        for (name, one), milliseconds, summary in zip(named.items(), times, summaries, strict=True)
    }
    _show(console, measured, change)
    return small, {"weights": {"largest_change": change, "measured": measured}}


def _largest_change(predictions: tuple[pa.Table, ...], tasks: list[str]) -> float:
    """The largest difference of a score between two models."""
    first, second = predictions
    columns = [f"{task}/score" for task in tasks]
    return max(float(np.abs(np.subtract(first[c], second[c])).max()) for c in columns)


def _check(change: float, options: ExportOptions) -> None:
    if change > options.weights_tolerance:
        raise PipelineError(
            f"With `export.tables` = {options.tables!r} and `export.tower` = {options.tower!r} a "
            f"score changes by {change:.4f}, so nothing was exported: expected at most "
            f"`export.weights_tolerance` = {options.weights_tolerance}. Use more bits, or raise it."
        )


def _show(console: Console, measured: Mapping[str, Mapping[str, Any]], change: float) -> None:
    tasks = next(iter(measured.values()))["auc"]
    heads = ("MB", "ms a request", *(f"AUC {task}" for task in tasks))
    table = number_table("weights", heads, gap=2)
    for name, numbers in measured.items():
        size, speed = f"{numbers['bytes'] / 1e6:,.2f}", f"{numbers['milliseconds']:.2f}"
        table.add_row(name, size, speed, *(decimal(auc) for auc in numbers["auc"].values()))
    console.print(table)
    console.print(f"largest change of a score: {change:.4f}")
