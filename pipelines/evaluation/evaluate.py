"""Evaluates a trained model on a split: predictions and metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.audit.conserving import require_conserving
from pipelines.common.artifacts import METRICS, PREDICTIONS, without_nan, write_json
from pipelines.common.errors import PipelineError
from pipelines.common.progress import Progress
from pipelines.engines import LOCAL
from pipelines.evaluation.audits import Audits
from pipelines.evaluation.evaluated_rows import EvaluatedRows
from pipelines.evaluation.gates import check_segments, decide
from pipelines.evaluation.row_cuts import segment_metrics, worst_slices
from pipelines.experiment.config import Experiment
from pipelines.experiment.gate_options import GateOptions
from pipelines.features import FittedFeatures
from pipelines.feed import Feed
from pipelines.metrics import own_metrics, task_metrics
from pipelines.report.results import Evaluation
from pipelines.scoring.labelled import Scorers, score_split
from pipelines.scoring.scorer import Scorer
from pipelines.storage.dataset import DataSplit
from recsys_attn.models import RankingModel
from recsys_attn.schema import Task


def evaluate(
    experiment: Experiment,
    split: DataSplit,
    request: str | None,
    fitted: FittedFeatures,
    model: RankingModel,
    progress: Progress,
    train_rates: Mapping[str, float] | None = None,
    workers: Scorers | None = None,
    trained: int | None = None,
) -> tuple[pa.Table, dict[str, Any]]:
    """Scores every row of a split; returns the predictions and the metrics by task.

    Args:
        experiment: The experiment.
        split: The rows.
        request: Column of the request id; None: every row is a request.
        fitted: Schema and transforms.
        model: The trained model.
        progress: Shows the rows done.
        train_rates: Share of positives in the training rows by task, for the trivial prediction.
        workers: Score the row groups; None: this process.
        trained: Rows of the training, of all epochs, whose work limits that of the audits; None:
            nothing does.
    """
    options = experiment.evaluation
    if options.layer_wise_relevance:
        require_conserving(model)
    rows = EvaluatedRows.read(split, options, request, fitted.schema)
    check_segments(options.gates, rows.cuts)
    feed, scorer = Feed(split, fitted, request), Scorer(model)
    try:
        advance = progress.start(f"scoring {split.name}", split.rows)
        workers = workers or Scorers(LOCAL, lambda: (fitted, model))
        labels, scores = score_split(feed, workers, advance)
    finally:
        progress.stop()
    columns: dict[str, Any] = {"request": rows.requests}
    if rows.group is not None:
        columns["group"] = rows.extras[rows.group]
    tasks = {}
    for task in model.schema.tasks:
        label, score = labels[task.name], scores[task.name]
        ceiling = options.ceiling.get(task.name)
        columns[f"{task.name}/label"] = pa.array(label, from_pandas=True)
        columns[f"{task.name}/score"] = score
        if ceiling is not None:
            columns[f"{task.name}/ceiling"] = rows.extras[ceiling]
        rate = (train_rates or {}).get(task.name)
        tasks[task.name] = _task_metrics(experiment, task, label, score, rows, rate)
    columns |= {f"segment/{', '.join(cut.columns)}": cut.column for cut in rows.cuts}
    for name, column in options.baselines.items():
        columns[f"baseline/{name}"] = rows.extras[column]
    audits = Audits(experiment, feed, scorer, model, rows, labels, progress, trained)
    for name, audited in audits.of_tasks().items():
        tasks[name] |= audited
    more = {"drawn_negatives": _drawn_negatives(experiment, split), "audited": audits.taken}
    return pa.table(columns), more | summary(
        split.name, rows.requests, rows.group, tasks, audits.attention()
    )


def summary(
    split: str,
    requests: np.ndarray,
    group: str | None,
    tasks: Mapping[str, Any],
    attention: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """The results of an evaluation, as its metrics.json has them.

    Args:
        split: The name of the rows.
        requests: The number of each row's request `(rows,)`.
        group: Column of the groups.
        tasks: The metrics of each task.
        attention: The audit of heads, interactions and experts.
    """
    return {
        "split": split,
        "rows": len(requests),
        "requests": int(requests[-1]) + 1,
        "group": group,
        "tasks": dict(tasks),
        "attention": attention,
    }


def train_rates(labels: Mapping[str, Mapping[str, list[int]]]) -> dict[str, float]:
    """The share of positives in the training rows by task.

    Args:
        labels: Known and positive rows by task and split.
    """
    counts = {task: of_split["train"] for task, of_split in labels.items()}
    return {task: positive / known for task, (known, positive) in counts.items() if known}


def save_evaluation(
    folder: Path,
    predictions: pa.Table,
    metrics: dict[str, Any],
    gates: Sequence[GateOptions] = (),
) -> None:
    """Decides the gates and writes the evaluation folder that the report reads."""
    pq.write_table(predictions, folder / PREDICTIONS, compression="zstd")
    decided = decide(gates, Evaluation(metrics, folder / PREDICTIONS))
    write_json(folder / METRICS, without_nan({**metrics, "gates": decided}))


def _task_metrics(
    experiment: Experiment,
    task: Task,
    label: np.ndarray,
    score: np.ndarray,
    rows: EvaluatedRows,
    train_rate: float | None,
) -> dict[str, Any]:
    """The metrics of a task, of all rows and of the segments, and its worst slices."""
    _check_scores(task.name, score)
    options = experiment.evaluation
    ceiling, probabilities = options.ceiling.get(task.name), task.has_probabilities
    try:
        metrics = task_metrics(
            label,
            score,
            groups=rows.groups,
            requests=rows.requests if rows.ranked else None,
            at=options.at,
            probabilities=probabilities,
            train_rate=train_rate,
            ceiling=None if ceiling is None else rows.numbers(ceiling),
            baselines={n: rows.numbers(c) for n, c in options.baselines.items()},
        )
        metrics["own"] = own_metrics(
            options.own_metrics, label, score, rows.requests, probabilities
        )
        metrics["segments"] = segment_metrics(rows.cuts, label, score, rows.clusters, probabilities)
    except ValueError as error:
        raise PipelineError(
            f"Task {task.name!r} cannot be evaluated: {error}. Check the columns that `evaluation` "
            f"names: {', '.join(sorted(rows.extras))}."
        ) from None
    if rows.searched and probabilities:
        of = (rows.searched, label, score, rows.clusters)
        metrics["slices"] = worst_slices(*of, experiment.seed)
    return metrics


def _check_scores(task: str, scores: np.ndarray) -> None:
    wrong = np.count_nonzero(~np.isfinite(scores))
    if wrong:
        raise PipelineError(
            f"The model's scores of task {task!r} are not numbers in {wrong:,} of {scores.size:,} "
            "rows: its weights or the data are not finite. Train again with a lower "
            "`training.learning_rate` or with `training.clip_norm`, and look for extreme values."
        )


def _drawn_negatives(experiment: Experiment, split: DataSplit) -> int:
    """Negatives that ingest drew for each request of the split."""
    items = experiment.data.items
    return items.negatives if items is not None and split.name in ("valid", "test") else 0
