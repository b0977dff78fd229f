"""Prunes a finished run: a new run whose smaller model is trained on, evaluated and exported."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import tensorflow as tf
from rich.console import Console

from pipelines.common.artifacts import MANIFEST, METRICS, read_json
from pipelines.common.errors import PipelineError
from pipelines.common.progress import Progress
from pipelines.evaluation import evaluate as evaluation
from pipelines.export.file_list import versions_in
from pipelines.export.latency import milliseconds, request_call
from pipelines.export.parity import sample_requests
from pipelines.features import FittedFeatures
from pipelines.report.numbers import ABSENT, count, decimal, number_table
from pipelines.storage.dataset import DataSplit
from pipelines.training.pruned import Pruned, in_words, pruned
from pipelines.workflow.quiet_run import link_step
from pipelines.workflow.steps import Steps
from recsys_attn.models import RankingModel

_ROWS = 500  # candidates of a timed call: enough that the model counts more than the call


class _Line(NamedTuple):
    """A line of the table; None for a missing measurement."""

    weights: int
    megabytes: float | None
    milliseconds: float | None
    auc: Mapping[str, float | None]


def prune(whole: Steps, smaller: Steps) -> None:
    """Makes the run of the smaller model and prints it beside the whole one.

    Args:
        whole: The steps of the finished run.
        smaller: Those of the new run, whose experiment names it in `training.prune`.

    Raises:
        PipelineError: The run is not finished, or its model cannot be pruned.
    """
    for step in ("train", "evaluate"):
        whole.run.manifest(step)
    exported = _newest_export(whole)
    for step in ("ingest", "fit"):
        link_step(whole.run.path(step), smaller.run.path(step))
    smaller.train()
    smaller.evaluate()
    smaller.export()
    fitted = FittedFeatures.load(whole.run.path("fit")).without(whole.experiment.model.exclude)
    fitted = fitted.with_tasks(whole.experiment.tasks)
    valid = DataSplit(whole.run.path("ingest") / "valid")
    result = pruned(whole.run.folder, smaller.experiment, fitted, valid)
    difference = smaller.run.manifest("train")["pruned"]["largest_difference"]
    smaller.console.print(f"kept: {in_words(result.kept)}", soft_wrap=True)
    smaller.console.print(
        f"before training on, a score of the validation rows differs by at most {difference:.1e}"
    )
    _show(smaller.console, _lines(whole, smaller, result, exported))


def pruned_experiment(
    run: Path, epochs: int, heads: int | None = None, by: str | None = None
) -> dict[str, Any]:
    """The keys of a run's experiment that change for its pruned one."""
    return {
        "training.prune": str(run),
        "training.prune_heads": heads,
        "training.prune_by": by,
        "training.warm_start": None,
        "training.epochs": epochs,
        "training.keep": "best",
        "training.penalty_warmup": [0, 0],
    }


def _newest_export(steps: Steps) -> Path:
    """The folder of the newest version, made of the trained model."""
    base, trained = steps.export_folder, steps.run.manifest("train")["fingerprint"]
    newest = max(versions_in(base), key=lambda path: int(path.name), default=base)
    manifest = newest / MANIFEST
    if not manifest.is_file() or read_json(manifest)["inputs"].get("train") != trained:
        raise PipelineError(
            f"{base} holds no export of the trained model: run `recsys-attn export "
            f"{steps.run.folder}` first."
        )
    return newest


def _lines(whole: Steps, smaller: Steps, result: Pruned, exported: Path) -> dict[str, _Line]:
    experiment, data = whole.experiment, whole.run.path("ingest")
    split = DataSplit(data / experiment.evaluation.split)
    exports = [exported, _newest_export(smaller)]
    loaded = [tf.saved_model.load(str(path)) for path in exports]
    schemas = [steps.load()[0].raw_schema for steps in (whole, smaller)]
    request = sample_requests(schemas[0], split, whole.request, 1)[0]
    request = pa.concat_tables([request] * (_ROWS // request.num_rows + 1)).slice(0, _ROWS)
    request = request.combine_chunks()
    times = milliseconds(
        [
            request_call(export.signatures, schema, request)
            for export, schema in zip(loaded, schemas, strict=True)
        ]
    )
    sizes = [sum(p.stat().st_size for p in path.rglob("*") if p.is_file()) for path in exports]
    lines = {"whole": _Line(_weights(result.whole), sizes[0] / 1e6, times[0], _auc(whole))}
    epochs = smaller.experiment.training.epochs
    if epochs:
        progress = Progress(smaller.console)
        arguments = split, whole.request, result.fitted, result.model, progress
        plain = experiment.model_copy(update={"evaluation": experiment.evaluation.metrics_only})
        tasks = evaluation.evaluate(plain, *arguments)[1]["tasks"]
        auc = {task: metrics["auc"] for task, metrics in tasks.items()}
        lines["pruned"] = _Line(_weights(result.model), None, None, auc)
    name = f"pruned, {epochs} epoch{'s' if epochs > 1 else ''} on" if epochs else "pruned"
    measured = sizes[1] / 1e6, times[1], _auc(smaller)
    return {**lines, name: _Line(_weights(result.model), *measured)}


def _weights(model: RankingModel) -> int:
    return int(model.count_params())


def _auc(steps: Steps) -> dict[str, float | None]:
    metrics = read_json(steps.run.path("evaluate") / METRICS)
    return {task: metrics_of_task["auc"] for task, metrics_of_task in metrics["tasks"].items()}


def _show(console: Console, lines: Mapping[str, _Line]) -> None:
    tasks = next(iter(lines.values())).auc
    heads = ("weights", "MB", f"ms, {_ROWS} rows", *(f"AUC {task}" for task in tasks))
    table = number_table("model", heads, gap=2)
    for name, line in lines.items():
        size, speed = (
            ABSENT if x is None else f"{x:.2f}" for x in (line.megabytes, line.milliseconds)
        )
        table.add_row(name, count(line.weights), size, speed, *map(decimal, line.auc.values()))
    console.print(table)
