"""Gradient-boosted trees on a run's data: the same features, and with target encodings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.ranking_quality.earlier import earlier_counts
from pipelines.baselines.columns import Columns
from pipelines.baselines.trees import Trees
from pipelines.experiment.config import Experiment
from pipelines.features import FittedFeatures
from pipelines.feed.chunk import labels_of
from pipelines.ingest.source import SPLITS
from recsys_attn.schema import Feature, Numeric, is_listed

_PRIOR_ROWS = 20.0  # of a target encoding, with the mean rate
_FOLDS = 5


class TreeData:
    """The rows of all splits as columns of numbers.

    Args:
        experiment: Names features and tasks.
        run: The folder of a run.
        time: Column of the time, for target encodings from strictly earlier rows. None: those of
            the training rows are made from the other folds, and the others' from all of them.
    """

    def __init__(self, experiment: Experiment, run: Path, time: str | None) -> None:
        self._schema = experiment.model_schema
        tables = [pq.read_table(run / "data" / split) for split in SPLITS]
        self._split = np.repeat(np.arange(len(SPLITS)), [table.num_rows for table in tables])
        table = pa.concat_tables(tables, promote_options="permissive")
        fitted = FittedFeatures.load(run / "features").without(experiment.model.exclude)
        self._columns = Columns.of(table, fitted)
        self._time = None if time is None else table[time].to_numpy()
        self._codes = {f.name: _codes(table[f.name]) for f in self._singles}
        self._labels = labels_of(table, self._schema.tasks).astype("float64")

    @property
    def _singles(self) -> list[Feature]:
        features = self._schema.features
        return [f for f in features if not is_listed(f) and not isinstance(f, Numeric)]

    def _label(self, task: str) -> np.ndarray:
        """The labels of all rows, NaN where the task does not count."""
        return self._labels[:, [t.name for t in self._schema.tasks].index(task)]

    def _encodings(self, task: str) -> dict[str, np.ndarray]:
        """The smoothed rate of a task and the count of rows, by each value of each feature."""
        label = self._label(task)
        columns = {}
        for name, codes in self._codes.items():
            positive, rows = self._counts(codes, label)
            mean = np.nanmean(label[self._split == 0])
            columns[f"{name}/rate"] = (positive + _PRIOR_ROWS * mean) / (rows + _PRIOR_ROWS)
            columns[f"{name}/count"] = rows
        return columns

    def _counts(self, codes: np.ndarray, label: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if self._time is not None:
            return earlier_counts(codes, self._time, label)
        fold = np.random.default_rng(0).integers(0, _FOLDS, len(codes))
        fold[self._split > 0] = -1
        positive, rows = np.zeros(len(codes)), np.zeros(len(codes))
        for number in np.unique(fold):
            used = (self._split == 0) & (fold != number) & ~np.isnan(label)
            here = fold == number
            size = codes.max() + 1
            positive[here] = np.bincount(codes[used], label[used], size)[codes[here]]
            rows[here] = np.bincount(codes[used], minlength=size)[codes[here]]
        return positive, rows

    def scores(self, task: str, encoded: bool, seed: int) -> np.ndarray:
        """Trains on the training rows, stops by the validation rows, and scores the test rows."""
        added = self._encodings(task) if encoded else {}
        columns = Columns({**self._columns.numbers, **added}, self._columns.ids, self._columns.bags)
        train, valid, test = (columns.take(self._split == split) for split in range(len(SPLITS)))
        trees, labels = Trees(train), self._label(task)

        def labelled(split: int, rows: Columns) -> tuple[np.ndarray, np.ndarray]:
            label = labels[self._split == split]
            known = ~np.isnan(label)
            return trees.encode(rows)[known], label[known]

        score = trees.fit(labelled(0, train), labelled(1, valid), seed)
        return score(trees.encode(test))


def _codes(column: pa.ChunkedArray) -> np.ndarray:
    encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy()
