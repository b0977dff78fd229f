"""Checks of a metric's input, and the warning for undefined metrics."""

import warnings
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from serving.state.columns.missing import with_nulls

Floats = NDArray[np.float64]
ONE_CLASS = "only one class is present in `labels`"


class UndefinedMetricWarning(UserWarning):
    """A warning that the data does not define the metric; its value is nan."""


def check_pairs(labels: ArrayLike, scores: ArrayLike) -> tuple[Floats, NDArray[Any]]:
    labels, scores = np.asarray(labels, dtype=np.float64), np.asarray(scores)
    if labels.ndim != 1:
        raise ValueError(f"`labels` must be one-dimensional. Received: shape={labels.shape}")
    check_shape("scores", scores, labels)
    return check_labels(labels), check_scores(scores)


def check_labels(labels: NDArray[Any]) -> NDArray[Any]:
    wrong = labels[(labels != 0) & (labels != 1)]
    if wrong.size:
        raise ValueError(
            "`labels` must be 0 or 1; leave out rows whose label is unknown. "
            f"Received: {wrong[0]} and {wrong.size - 1} more"
        )
    return labels


def check_scores(scores: NDArray[Any]) -> NDArray[Any]:
    if scores.dtype.kind not in "biuf":
        raise ValueError(f"`scores` must be numbers. Received: dtype={scores.dtype}")
    if np.isnan(scores).any():
        raise ValueError(
            f"`scores` must be numbers. Received: {np.isnan(scores).sum()} nan of {scores.size}"
        )
    return scores


def check_probabilities(labels: ArrayLike, scores: ArrayLike) -> tuple[Floats, Floats]:
    labels, scores = check_pairs(labels, scores)
    check_range(scores)
    return labels, scores.astype(np.float64)


def check_range(scores: NDArray[Any]) -> None:
    if scores.size and not (scores.min() >= 0 and scores.max() <= 1):
        raise ValueError(
            "`scores` must be probabilities in [0, 1]; apply the sigmoid to logits. "
            f"Received: numbers from {scores.min()} to {scores.max()}"
        )


def group_codes(groups: ArrayLike, labels: Floats) -> NDArray[np.intp]:
    """Numbers the groups 0, 1, 2, ...; -1 where the group is missing.

    None, nan, the empty string and the smallest int64 are missing.
    """
    groups = check_shape("groups", np.asarray(groups), labels)
    try:
        encoded = with_nulls(pa.array(groups, from_pandas=True)).dictionary_encode()
    except (pa.ArrowException, TypeError) as error:
        raise ValueError(f"`groups` must hold values of one kind. Received: {error}") from error
    return encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.intp)


def check_shape(name: str, array: NDArray[Any], labels: Floats) -> NDArray[Any]:
    if array.shape != labels.shape:
        raise ValueError(
            f"`{name}` must have one value per label. "
            f"Received: {name}.shape={array.shape} and labels.shape={labels.shape}"
        )
    return array


def undefined(metric: str, reason: str) -> float:
    warnings.warn(f"{metric} is not defined: {reason}.", UndefinedMetricWarning, stacklevel=3)
    return np.nan
