"""Evaluates a trained model on a split: predictions and metrics."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.audit.conserving import require_conserving
from pipelines.audit.relevance import relevance
from pipelines.audit.rows import drawn_rows
from pipelines.common.artifacts import METRICS, PREDICTIONS, write_json
from pipelines.common.errors import PipelineError
from pipelines.common.progress import Progress
from pipelines.engines import LOCAL
from pipelines.evaluation.gates import check_segments, decide
from pipelines.evaluation.importance import permutation_importance, units
from pipelines.evaluation.segments import Cut, cut, cut_all, segment_metrics
from pipelines.evaluation.slices import worst_slices
from pipelines.experiment.config import Experiment
from pipelines.experiment.evaluation_options import EvaluationOptions
from pipelines.features import FittedFeatures
from pipelines.feed import Feed
from pipelines.metrics import own_metrics, task_metrics
from pipelines.metrics.intervals import cluster_codes
from pipelines.scoring.labelled import Workers, score_split
from pipelines.scoring.scorer import Scorer
from pipelines.storage.dataset import DataSplit
from pipelines.storage.request_rows import request_starts
from recsys_attn.models import RankingModel
from recsys_attn.schema import Schema, Task


def evaluate(
    experiment: Experiment,
    split: DataSplit,
    request: str | None,
    fitted: FittedFeatures,
    model: RankingModel,
    progress: Progress,
    train_rates: Mapping[str, float] | None = None,
    workers: Workers | None = None,
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
    """
    options = experiment.evaluation
    if options.layer_wise_relevance:
        require_conserving(model)
    rows = _Rows.read(split, options, request, fitted.schema)
    check_segments(options.gates, rows.cuts)
    feed, scorer = Feed(split, fitted, request), Scorer(model)
    try:
        advance = progress.start(f"scoring {split.name}", split.rows)
        workers = workers or Workers(LOCAL, lambda: (fitted, model))
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
    columns |= {f"segment/{', '.join(each.columns)}": each.column for each in rows.cuts}
    for name, column in options.baselines.items():
        columns[f"baseline/{name}"] = rows.extras[column]
    if options.importance_rows:
        important = _importance(experiment, feed, scorer, rows, labels, progress)
        for name, entries in important.items():
            tasks[name]["importance"] = entries
    if options.audit_rows:
        for name, found in _relevance(experiment, feed, model, rows, progress).items():
            tasks[name]["relevance"] = found
    summary = {
        "split": split.name,
        "rows": len(rows.requests),
        "requests": int(rows.requests[-1]) + 1,
        "group": rows.group,
        "drawn_negatives": _drawn_negatives(experiment, split),
        "tasks": tasks,
        "gates": decide(options.gates, tasks),
    }
    return pa.table(columns), summary


def _importance(
    experiment: Experiment,
    feed: Feed,
    scorer: Scorer,
    rows: _Rows,
    labels: Mapping[str, np.ndarray],
    progress: Progress,
) -> dict[str, list[dict[str, Any]]]:
    """Importance of the features on some of the requests, of about `importance_rows` rows."""
    rng = np.random.default_rng(experiment.seed)
    share = experiment.evaluation.importance_rows / len(rows.requests)
    kept = (rng.random(rows.requests[-1] + 1) < share)[rows.requests]
    if not kept.any():
        return {}
    tables, done = [], 0
    for table in feed.split.batches(feed.column_names):
        tables.append(table.filter(pa.array(kept[done : done + len(table)])))
        done += len(table)
    table, schema = pa.concat_tables(tables), feed.fitted.schema
    try:
        return permutation_importance(
            lambda changed: scorer.score_table(changed, feed.fitted, feed.request),
            table,
            schema,
            feed.request,
            {task: label[kept] for task, label in labels.items()},
            rows.clusters[kept],
            experiment.seed,
            progress.start("importance of features", len(table) * len(units(schema))),
        )
    finally:
        progress.stop()


def _relevance(
    experiment: Experiment, feed: Feed, model: RankingModel, rows: _Rows, progress: Progress
) -> dict[str, dict[str, Any]]:
    """Relevance of fields and events on some of the rows."""
    options, seed = experiment.evaluation, experiment.seed
    drawn, table = drawn_rows(feed, options.audit_rows, seed)
    clusters = cluster_codes(rows.requests if rows.groups is None else rows.groups, rows.requests)
    try:
        advance = progress.start("relevance of fields and events", len(table))
        of_rows = table, feed.fitted, clusters[drawn]
        return relevance(model, *of_rows, seed, options.layer_wise_relevance, advance)
    finally:
        progress.stop()


def train_rates(labels: Mapping[str, Mapping[str, list[int]]]) -> dict[str, float]:
    """The share of positives in the training rows by task.

    Args:
        labels: Known and positive rows by task and split.
    """
    counts = {task: of_split["train"] for task, of_split in labels.items()}
    return {task: positive / known for task, (known, positive) in counts.items() if known}


def save_evaluation(folder: Path, predictions: pa.Table, metrics: dict[str, Any]) -> None:
    """Writes the evaluation folder that the report reads."""
    pq.write_table(predictions, folder / PREDICTIONS, compression="zstd")
    write_json(folder / METRICS, metrics)


class _Rows(NamedTuple):
    """What an evaluation reads of the rows besides features and labels.

    Attributes:
        extras: Columns by name; of a list column that divides the rows, its lengths.
        requests: The number of each row's request.
        ranked: Whether a request may have several rows.
        group: Column of the groups of GAUC, if there are any.
        groups: The group of each row as a number, NaN for rows without one.
        cuts: The segments.
        searched: The values of the columns that are searched for slices.
    """

    extras: dict[str, pa.Array]
    requests: np.ndarray
    ranked: bool
    group: str | None
    groups: np.ndarray | None
    cuts: list[Cut]
    searched: list[Cut]

    @classmethod
    def read(
        cls, split: DataSplit, options: EvaluationOptions, request: str | None, schema: Schema
    ) -> _Rows:
        group = options.group or request
        features = [f.name for f in schema.features if f.name in split.columns]
        searched = options.searched(features)
        divided = {*itertools.chain(*options.segmentations), *searched}
        named = {*options.ceiling.values(), *options.baselines.values(), *filter(None, [group])}
        _check_columns(split, named | divided)
        extras, requests = _extra_columns(split, sorted(named | divided), request, divided)
        groups = None if group is None else _codes(extras[group])
        cuts = cut_all(options.segmentations, extras)
        slices = [cut(name, extras[name]) for name in searched]
        return cls(extras, requests, request is not None, group, groups, cuts, slices)

    @property
    def clusters(self) -> np.ndarray:
        """The number of the group or the request of each row, whose rows depend on each other."""
        return self.requests if self.groups is None else self.groups


def _task_metrics(
    experiment: Experiment,
    task: Task,
    label: np.ndarray,
    score: np.ndarray,
    rows: _Rows,
    train_rate: float | None,
) -> dict[str, Any]:
    """The metrics of a task, of all rows and of the segments, and its worst slices."""
    _check_scores(task.name, score)
    options = experiment.evaluation
    ceiling, probabilities = options.ceiling.get(task.name), task.has_probabilities
    try:
        found = task_metrics(
            label,
            score,
            groups=rows.groups,
            requests=rows.requests if rows.ranked else None,
            at=options.at,
            probabilities=probabilities,
            train_rate=train_rate,
            ceiling=None if ceiling is None else _numbers(rows.extras, ceiling),
            baselines={n: _numbers(rows.extras, c) for n, c in options.baselines.items()},
        )
        found["own"] = own_metrics(options.own_metrics, label, score, rows.requests)
        found["segments"] = segment_metrics(rows.cuts, label, score, rows.clusters, probabilities)
    except ValueError as error:
        raise PipelineError(
            f"Task {task.name!r} cannot be evaluated: {error}. Check the columns that `evaluation` "
            f"names: {', '.join(sorted(rows.extras))}."
        ) from None
    if rows.searched and probabilities:
        of = (rows.searched, label, score, rows.clusters)
        found["slices"] = worst_slices(*of, experiment.seed)
    return found


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


def _check_columns(split: DataSplit, names: set[str]) -> None:
    missing = sorted(names - set(split.columns))
    if missing:
        raise PipelineError(
            f"`evaluation` names the columns {missing}, which the data does not have. "
            f"Columns: {', '.join(split.columns)}."
        )


def _extra_columns(
    split: DataSplit, names: list[str], request: str | None, divided: Collection[str]
) -> tuple[dict[str, pa.Array], np.ndarray]:
    """Columns by name, and the number of each row's request, in one pass.

    A column of lists in `divided` is read as their lengths.
    """
    read = sorted({*names, *([request] if request else [])})
    if not read:
        return {}, np.arange(split.rows)
    tables, numbers, done = [], [], 0
    for table in split.batches(read):
        lengths = np.diff(request_starts(table, request))
        numbers.append(done + np.repeat(np.arange(len(lengths)), lengths))
        tables.append(_with_lengths(table.select(names), divided))
        done += len(lengths)
    together = pa.concat_tables(tables)
    return {n: together[n].combine_chunks() for n in names}, np.concatenate(numbers)


def _with_lengths(table: pa.Table, names: Collection[str]) -> pa.Table:
    """The table with lengths in the place of lists."""
    for index, (name, kind) in enumerate(zip(table.column_names, table.schema.types, strict=True)):
        if name in names and pa.types.is_nested(kind):
            table = table.set_column(index, name, pc.list_value_length(table[name]))
    return table


def _codes(column: pa.Array) -> np.ndarray:
    """Groups as numbers; NaN for rows without a group."""
    return column.dictionary_encode().indices.cast(pa.float64()).to_numpy(zero_copy_only=False)


def _numbers(extras: dict[str, pa.Array], name: str) -> np.ndarray:
    kind = extras[name].type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise PipelineError(f"`evaluation`: column {name!r}: expected numbers, received {kind}.")
    return extras[name].cast(pa.float64()).to_numpy(zero_copy_only=False)
