"""Evaluates a trained model on a split: predictions and metrics."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.common.artifacts import METRICS, PREDICTIONS, write_json
from pipelines.common.errors import PipelineError
from pipelines.common.progress import Progress
from pipelines.evaluation.importance import permutation_importance, units_of
from pipelines.experiment.config import Experiment
from pipelines.features import FittedFeatures
from pipelines.feed import Feed
from pipelines.metrics import own_metrics, task_metrics
from pipelines.scoring.scorer import Scorer
from pipelines.storage.dataset import DataSplit
from pipelines.storage.request_rows import request_starts
from recsys_attn.models import RankingModel


def evaluate(
    experiment: Experiment,
    split: DataSplit,
    request: str | None,
    fitted: FittedFeatures,
    model: RankingModel,
    progress: Progress,
    train_rates: Mapping[str, float] | None = None,
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
    """
    options = experiment.evaluation
    probabilities = {task.name: task.has_probabilities for task in model.schema.tasks}
    group = options.group or request
    extra_names = {*options.ceiling.values(), *options.baselines.values(), *filter(None, [group])}
    _check_columns(split, extra_names)
    feed = Feed(split, fitted, request)
    try:
        advance = progress.start(f"scoring {split.name}", split.rows)
        labels, scores = Scorer(model).score_labelled(feed, advance)
    finally:
        progress.stop()
    extras, requests = _extra_columns(split, sorted(extra_names), request)
    columns: dict[str, Any] = {"request": requests}
    if group is not None:
        columns["group"] = extras[group]
    tasks = {}
    for task, label in labels.items():
        ceiling = options.ceiling.get(task)
        columns[f"{task}/label"] = pa.array(label, from_pandas=True)
        columns[f"{task}/score"] = scores[task]
        if ceiling is not None:
            columns[f"{task}/ceiling"] = extras[ceiling]
        try:
            tasks[task] = task_metrics(
                label,
                scores[task],
                groups=None if group is None else _codes(extras[group]),
                requests=None if request is None else requests,
                at=options.at,
                probabilities=probabilities[task],
                train_rate=(train_rates or {}).get(task),
                ceiling=None if ceiling is None else _numbers(extras, ceiling),
                baselines={n: _numbers(extras, c) for n, c in options.baselines.items()},
            )
            tasks[task]["own"] = own_metrics(options.own_metrics, label, scores[task], requests)
        except ValueError as error:
            raise PipelineError(
                f"Task {task!r} cannot be evaluated: {error}. Check the columns that `evaluation` "
                f"names: {', '.join(sorted(extra_names))}."
            ) from None
    for name, column in options.baselines.items():
        columns[f"baseline/{name}"] = extras[column]
    if options.importance_rows:
        clusters = requests if group is None else _codes(extras[group])
        important = _importance(experiment, feed, model, requests, labels, clusters, progress)
        for task, entries in important.items():
            tasks[task]["importance"] = entries
    summary = {
        "split": split.name,
        "rows": len(requests),
        "requests": int(requests[-1]) + 1,
        "group": group,
        "drawn_negatives": _drawn_negatives(experiment, split),
        "tasks": tasks,
    }
    return pa.table(columns), summary


def _importance(
    experiment: Experiment,
    feed: Feed,
    model: RankingModel,
    requests: np.ndarray,
    labels: Mapping[str, np.ndarray],
    clusters: np.ndarray,
    progress: Progress,
) -> dict[str, list[dict[str, Any]]]:
    """Importance of the features on some of the requests, of about `importance_rows` rows."""
    rng = np.random.default_rng(experiment.seed)
    share = experiment.evaluation.importance_rows / len(requests)
    kept = (rng.random(requests[-1] + 1) < share)[requests]
    if not kept.any():
        return {}
    tables, done = [], 0
    for table in feed.split.batches(feed.column_names):
        tables.append(table.filter(pa.array(kept[done : done + len(table)])))
        done += len(table)
    table, schema, scorer = pa.concat_tables(tables), model.schema, Scorer(model)
    try:
        return permutation_importance(
            lambda changed: scorer.score_table(changed, feed.fitted, feed.request),
            table,
            schema,
            feed.request,
            {task: label[kept] for task, label in labels.items()},
            clusters[kept],
            experiment.seed,
            progress.start("importance of features", len(table) * units_of(schema)),
        )
    finally:
        progress.stop()


def save_evaluation(folder: Path, predictions: pa.Table, metrics: dict[str, Any]) -> None:
    """Writes the evaluation folder that the report reads."""
    pq.write_table(predictions, folder / PREDICTIONS, compression="zstd")
    write_json(folder / METRICS, metrics)


def _drawn_negatives(experiment: Experiment, split: DataSplit) -> int:
    """Negatives that ingest drew for each request of the split."""
    items = experiment.data.items
    return items.negatives if items is not None and split.name in ("valid", "test") else 0


def _check_columns(split: DataSplit, names: set[str]) -> None:
    missing = sorted(names - set(split.columns))
    if missing:
        raise PipelineError(
            f"`evaluation` names the columns {missing}, which the data does not have. "
            f"Columns: {', '.join(split.columns)}."
        )


def _extra_columns(
    split: DataSplit, names: list[str], request: str | None
) -> tuple[dict[str, pa.Array], np.ndarray]:
    """Columns by name, and the number of each row's request, in one pass."""
    read = sorted({*names, *([request] if request else [])})
    if not read:
        return {}, np.arange(split.rows)
    tables, numbers, done = [], [], 0
    for table in split.batches(read):
        lengths = np.diff(request_starts(table, request))
        numbers.append(done + np.repeat(np.arange(len(lengths)), lengths))
        tables.append(table.select(names))
        done += len(lengths)
    together = pa.concat_tables(tables)
    return {n: together[n].combine_chunks() for n in names}, np.concatenate(numbers)


def _codes(column: pa.Array) -> np.ndarray:
    """Groups as numbers; NaN for rows without a group."""
    return column.dictionary_encode().indices.cast(pa.float64()).to_numpy(zero_copy_only=False)


def _numbers(extras: dict[str, pa.Array], name: str) -> np.ndarray:
    kind = extras[name].type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise PipelineError(f"`evaluation`: column {name!r}: expected numbers, received {kind}.")
    return extras[name].cast(pa.float64()).to_numpy(zero_copy_only=False)
