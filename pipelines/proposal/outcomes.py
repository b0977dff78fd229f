"""Columns that tell a label because they are known only after it, such as watched seconds."""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipelines.metrics.score_order import auc
from pipelines.storage.dataset import DataSplit, Reader
from recsys_attn.schema import Schema, is_listed
from serving.state.columns.arrow_kinds import is_number

_FEW = 50  # rows of a class, or with a value, that say nothing
_AUC = 0.95
_SHARE = 0.99
_CHANCE = math.log(1e-9)  # of rows with a value having the label by luck alone
_LEVELS, _ROWS_OF_LEVEL = 1000, 20
_ROWS = 50_000

Floats = NDArray[np.float64]


def outcome_features(schema: Schema, split: DataSplit, made: Collection[str]) -> list[str]:
    """A warning for each feature that is probably an outcome.

    Args:
        schema: The features and tasks.
        split: The split that they are fitted on; about 50,000 of its rows are read.
        made: Columns of earlier events, which know nothing of their row's outcome.
    """
    features = [f for f in schema.features if f.column_name not in made and not is_listed(f)]
    if not (features and schema.tasks):
        return []
    labels = {task.name: task.label_column for task in schema.tasks}
    step = math.ceil(split.rows / _ROWS)
    with Reader(split.footers, [*{*labels.values(), *(f.column_name for f in features)}]) as reader:
        rows = reader.read(range(0, len(split.footers), step)).slice(0, _ROWS)
    warnings = []
    for feature in features:
        values = rows[feature.column_name].combine_chunks()
        reasons = (outcome_reason(values, rows[of], name) for name, of in labels.items())
        reason = next(filter(None, reasons), "")
        if reason:
            warnings.append(
                f"Feature {feature.name!r} is probably known only after the candidate was shown: "
                f"{reason}. If it is, the model fails online: remove it from `features`, or name "
                "it in `model.exclude`."
            )
    return warnings


def outcome_reason(values: pa.Array, label: pa.ChunkedArray, name: str) -> str:
    """The sign that a column is an outcome of its row; empty if there is none.

    Rates of ids with few rows say nothing, nor do labels with fewer than 50 rows of a class.

    Args:
        values: The column `(rows,)`, of numbers or texts.
        label: 0, 1 or null `(rows,)`.
        name: Name of the label.
    """
    labels = label.cast(pa.float64()).to_numpy()
    known = ~np.isnan(labels)
    labels = labels[known]
    positives = int(labels.sum())
    if min(positives, len(labels) - positives) < _FEW:
        return ""
    values = values.filter(pa.array(known))
    for what, has in _presence(values):
        rows, share = int(has.sum()), float(labels[has].mean()) if has.any() else 0.0
        by_luck = rows * math.log(positives / len(labels))
        if rows >= _FEW and share >= _SHARE and by_luck < _CHANCE:
            return f"{name!r} is 1 in {100 * share:.4g} % of its {rows:,} rows with {what}"
    best = max((_apart(labels, scores) for scores in _scores(values, labels)), default=0.5)
    return f"alone it has an AUC of {best:.3f} for {name!r}" if best >= _AUC else ""


def _presence(values: pa.Array) -> list[tuple[str, NDArray[np.bool_]]]:
    """The rows that have a value, and those of a number other than 0."""
    has = [("a value", values.is_valid().to_numpy(zero_copy_only=False))]
    if is_number(values.type):
        other = pc.fill_null(pc.not_equal(values.cast(pa.float64(), safe=False), 0.0), False)
        has.append(("a value other than 0", other.to_numpy(zero_copy_only=False)))
    return has


def _scores(values: pa.Array, labels: Floats) -> list[Floats]:
    """Orders of the rows by the column: of its numbers, and of the label's rate by value."""
    scores = []
    if is_number(values.type):
        numbers = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        scores = [np.nan_to_num(numbers, nan=missing) for missing in (-np.inf, np.inf)]
    codes = values.dictionary_encode(null_encoding="encode").indices.to_numpy()
    if codes.max(initial=0) < _LEVELS:
        rows = np.bincount(codes)
        rates = np.bincount(codes, labels) / rows
        rates[rows < _ROWS_OF_LEVEL] = labels.mean()
        scores.append(rates[codes])
    return scores


def _apart(labels: Floats, scores: Floats) -> float:
    """The AUC of the scores, or of their opposite if that is larger."""
    one = auc(labels, scores)
    return max(one, 1 - one)
