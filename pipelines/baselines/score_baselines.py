"""Fits the baselines on a run's train rows and scores its evaluated rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipelines.baselines.columns import Columns
from pipelines.baselines.logistic import LogisticRegression
from pipelines.baselines.trees import Trees
from pipelines.features import FittedFeatures
from pipelines.feed.chunk import labels_of
from pipelines.storage.dataset import DataSplit, Reader

# About so many rows are drawn of more; `TRAIN_VALUES` is their number for each feature and task.
TRAIN_ROWS, TRAIN_VALUES, VALID_ROWS = 200_000, 6_000_000, 50_000
_READ = 4  # rows that are read for each that is drawn
BASELINES: Mapping[str, Callable[[Columns], Any]] = {
    "logistic regression": LogisticRegression,
    "trees": Trees,
}
Scores = dict[str, dict[str, NDArray[np.float64]]]
Labelled = tuple[Columns, NDArray[np.float32]]


@dataclass(frozen=True)
class ScoredBaselines:
    """The baselines' scores.

    Attributes:
        scores: Of the evaluated rows, by task and baseline; a task is left out if the train or the
            validation rows have one of its labels only.
        rows: Train rows that they were fitted on.
    """

    scores: Scores
    rows: int


def score_baselines(
    data: Path, evaluated: DataSplit, fitted: FittedFeatures, seed: int
) -> ScoredBaselines:
    """Fits each baseline for each task on train rows, stops it by validation rows, and scores.

    Args:
        data: The run's data, with the folders `train` and `valid`.
        evaluated: The rows to score.
        fitted: Schema and transforms of the model.
        seed: Seed of the drawn rows and of the trees.
    """
    values = len(fitted.schema.features) * len(fitted.schema.tasks)
    rows = min(TRAIN_ROWS, TRAIN_VALUES // values)
    train = _read(DataSplit(data / "train"), fitted, rows, seed)
    valid = _read(DataSplit(data / "valid"), fitted, VALID_ROWS, seed)
    baselines = {name: baseline(train[0]) for name, baseline in BASELINES.items()}
    models = {
        name: _models(baseline, train, valid, fitted, seed) for name, baseline in baselines.items()
    }
    parts: dict[str, dict[str, list[NDArray[np.float64]]]] = {}
    for table in _tables(evaluated, fitted, np.arange(len(evaluated.footers))):
        columns = Columns.of(table, fitted)
        for name, baseline in baselines.items():
            rows = baseline.encode(columns)
            for task, model in models[name].items():
                parts.setdefault(task, {}).setdefault(name, []).append(model(rows))
    scores = {
        task: {name: np.concatenate(several) for name, several in of_task.items()}
        for task, of_task in parts.items()
    }
    return ScoredBaselines(scores, len(train[1]))


def _models(
    baseline: Any, train: Labelled, valid: Labelled, fitted: FittedFeatures, seed: int
) -> dict[str, Callable[[Any], NDArray[np.float64]]]:
    """The function to probabilities of each task whose rows have both labels."""
    rows = [baseline.encode(columns) for columns, _ in (train, valid)]
    models = {}
    for index, task in enumerate(fitted.schema.tasks):
        labels = [labels[:, index] for _, labels in (train, valid)]
        known = [~np.isnan(of_split) for of_split in labels]
        both = [(r[k], y[k]) for r, k, y in zip(rows, known, labels, strict=True)]
        if all(len(np.unique(y)) == 2 for _, y in both):
            models[task.name] = baseline.fit(*both, seed)
    return models


def _read(split: DataSplit, fitted: FittedFeatures, count: int, seed: int) -> Labelled:
    """About `count` rows, drawn from enough row groups."""
    rng, rows = np.random.default_rng(seed), split.footers.rows
    groups = rng.permutation(len(rows))
    groups = np.sort(groups[: 1 + np.searchsorted(np.cumsum(rows[groups]), _READ * count)])
    share = count / max(rows[groups].sum(), 1)
    columns, labels = [], []
    for table in _tables(split, fitted, groups):
        if share < 1:
            table = table.filter(pa.array(rng.random(table.num_rows) < share))
        columns.append(Columns.of(table, fitted))
        labels.append(labels_of(table, fitted.schema.tasks))
    return Columns.together(columns), np.concatenate(labels)


def _tables(
    split: DataSplit, fitted: FittedFeatures, groups: NDArray[np.intp]
) -> Iterator[pa.Table]:
    features, tasks = fitted.schema.features, fitted.schema.tasks
    names = [feature.column_name for feature in features]
    names += [name for task in tasks for name in (task.label_column, task.mask) if name]
    encoded = [feature.column_name for feature in features if feature.dtype == "string"]
    with Reader(split.footers, list(dict.fromkeys(names)), encoded) as reader:
        for portion in reader.row_groups(groups):
            yield portion.table
