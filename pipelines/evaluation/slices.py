"""The worst slices of the evaluated rows, by the values of columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.evaluation.segments import Cut
from pipelines.metrics.intervals import Difference
from pipelines.metrics.slices import Slice
from pipelines.metrics.slices import worst_slices as search


def worst_slices(
    cuts: Sequence[Cut],
    labels: NDArray[Any],
    scores: NDArray[Any],
    clusters: NDArray[Any],
    seed: int,
) -> dict[str, Any]:
    """The worst slices of one task, as the evaluation's metrics.json has them.

    Args:
        cuts: The segments of each column that is searched.
        labels: 0, 1, or nan for unknown, shape (rows,).
        scores: The probability of each row, shape (rows,).
        clusters: The user or the request of each row, shape (rows,).
        seed: Seed of the halves.
    """
    known = ~np.isnan(labels)
    columns = [cut.codes[known] for cut in cuts]
    found = search(labels[known], scores[known], clusters[known], columns, seed)
    return {
        "columns": [cut.columns[0] for cut in cuts],
        "searched": found.searched,
        "tested": found.tested,
        "reported": [_named(cuts, each) for each in found.reported],
    }


def _named(cuts: Sequence[Cut], found: Slice) -> dict[str, Any]:
    """A slice with the names of its values, like those of a segment."""
    pairs = [(cuts[place], value) for place, value in zip(found.columns, found.values, strict=True)]
    return {
        "columns": [cut.columns[0] for cut, _ in pairs],
        "name": ", ".join(cut.names[value] for cut, value in pairs),
        "range": ", ".join(filter(None, (cut.ranges[value] for cut, value in pairs))),
        "rows": found.rows,
        "positives": found.positives,
        "found": _effect(found.found),
        "confirmed": {**_effect(found.confirmed), "p": found.confirmed.p},
        "p_adjusted": found.adjusted,
        "calibration": found.calibration,
    }


def _effect(found: Difference) -> dict[str, Any]:
    ends = [found.low, found.high]
    return {"excess_logloss_difference": found.value, "interval": ends, "clusters": found.clusters}
