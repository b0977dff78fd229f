"""Gradient-boosted trees on a run's data: the same features, and with target encodings."""

from __future__ import annotations

from pathlib import Path

import lightgbm
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.ranking_quality.earlier import earlier_counts
from pipelines.experiment.config import Experiment
from pipelines.ingest.source import SPLITS
from recsys_attn.schema import Feature, Numeric, Sequence, is_listed

_PRIOR_ROWS = 20.0  # of a target encoding, with the mean rate
_FOLDS = 5
_SHOWN_VALUES = 20  # of a list, the most frequent, each a column of its own


class TreeData:
    """The rows of all splits as columns of numbers.

    A categorical feature is a code; a history its length, its last value and how often the
    candidate is in it; a bag its length and whether it has each of the frequent values.

    Args:
        experiment: Names features and tasks.
        folder: The run's data: a folder of Parquet files for each split.
        time: Column of the time, for target encodings from strictly earlier rows. None: those of
            the training rows are made from the other folds, and the others' from all of them.
    """

    def __init__(self, experiment: Experiment, folder: Path, time: str | None) -> None:
        self._experiment = experiment
        tables = [pq.read_table(folder / split) for split in SPLITS]
        self._split = np.repeat(np.arange(len(SPLITS)), [table.num_rows for table in tables])
        self._table = pa.concat_tables(tables, promote_options="permissive")
        self._time = None if time is None else self._table[time].to_numpy()
        self._codes = {f.name: _codes(self._table[f.name]) for f in self._singles}

    @property
    def _singles(self) -> list[Feature]:
        features = self._experiment.model_schema.features
        return [f for f in features if not is_listed(f) and not isinstance(f, Numeric)]

    def label(self, task: str) -> np.ndarray:
        """The labels of all rows, NaN where the task does not count."""
        (options,) = [t for t in self._experiment.tasks if t.name == task]
        label = self._table[options.label_column].to_numpy().astype("float64")
        if options.mask is not None:
            label[~self._table[options.mask].to_numpy().astype(bool)] = np.nan
        return label

    def columns(self) -> dict[str, np.ndarray]:
        """The features of all rows."""
        columns: dict[str, np.ndarray] = {}
        for feature in self._experiment.model_schema.features:
            name, column = feature.name, self._table[feature.name]
            if isinstance(feature, Numeric):
                columns[name] = column.to_numpy().astype("float32")
            elif not is_listed(feature):
                columns[name] = self._codes[name]
            else:
                columns |= self._list_columns(feature, column.combine_chunks())
        return columns

    def _list_columns(self, feature: Feature, column: pa.ListArray) -> dict[str, np.ndarray]:
        name, lengths = feature.name, pc.fill_null(pc.list_value_length(column), 0).to_numpy()
        values, row = column.flatten(), np.repeat(np.arange(len(column)), lengths)
        columns: dict[str, np.ndarray] = {f"{name}/length": lengths}
        if isinstance(feature, Sequence):
            owner = feature.shares and self._experiment.schema_[feature.shares]
            if owner and owner.name in self._codes:
                same = pc.equal(
                    values, self._table[owner.name].combine_chunks().take(pa.array(row))
                )
                hits = pc.fill_null(same, False).to_numpy(zero_copy_only=False)
                columns[f"{name}/matches"] = np.bincount(row[hits], minlength=len(column))
            last = np.cumsum(lengths) - 1
            codes = _codes(pa.chunked_array([values]))
            columns[f"{name}/last"] = np.where(lengths, codes[np.maximum(last, 0)], -1)
            return columns
        counts = pc.value_counts(values).to_pylist()
        for count in sorted(counts, key=lambda count: -count["counts"])[:_SHOWN_VALUES]:
            hits = pc.equal(values, count["values"]).to_numpy(zero_copy_only=False)
            has = np.bincount(row[hits], minlength=len(column)) > 0
            columns[f"{name}/{count['values']}"] = has
        return columns

    def encodings(self, task: str) -> dict[str, np.ndarray]:
        """The smoothed rate of a task and the count of rows, by each value of each feature."""
        label = self.label(task)
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
        columns = {**self.columns(), **(self.encodings(task) if encoded else {})}
        label, matrix = self.label(task), np.stack(list(columns.values()), axis=1)
        ids = [index for index, name in enumerate(columns) if name in self._codes]
        used = [np.flatnonzero((self._split == index) & ~np.isnan(label)) for index in (0, 1)]
        train, valid = (
            lightgbm.Dataset(matrix[rows], label[rows], categorical_feature=ids) for rows in used
        )
        options = {"objective": "binary", "learning_rate": 0.05, "seed": seed, "verbosity": -1}
        model = lightgbm.train(
            {**options, "deterministic": True, "num_leaves": 31, "min_data_in_leaf": 50},
            train,
            2000,
            [valid],
            callbacks=[lightgbm.early_stopping(50, verbose=False)],
        )
        return model.predict(matrix[self._split == 2])


def _codes(column: pa.ChunkedArray) -> np.ndarray:
    encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy()
