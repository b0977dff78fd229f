"""All metrics of one task in one dictionary."""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipelines.metrics.checks import UndefinedMetricWarning, check_shape, group_codes
from pipelines.metrics.probability import calibration, logloss
from pipelines.metrics.ranking import auc, gauc


def task_metrics(
    labels: ArrayLike,
    scores: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    ceiling: ArrayLike | None = None,
    baselines: Mapping[str, ArrayLike] | None = None,
) -> dict[str, Any]:
    """All metrics of one task on its labelled rows, as the evaluation's metrics.json has them.

    Args:
        labels: 0, 1, or nan for unknown, shape (rows,).
        scores: Predicted probability per row, shape (rows,).
        groups: The group of each row; without it GAUC is None. Rows whose group is missing (None
            or nan) count in everything but GAUC.
        ceiling: True probability per row, if known.
        baselines: Other scores per row by name, of any scale.

    Returns:
        Counts and metrics by name; a metric that the data does not define is None.
    """
    every = np.asarray(labels, dtype=np.float64)
    known = ~np.isnan(every)
    y = every[known]

    def rows(name: str, column: ArrayLike) -> NDArray[Any]:
        return check_shape(name, np.asarray(column), every)[known]

    codes = None
    if groups is not None:
        found = group_codes(rows("groups", groups), y)
        codes = np.where(found < 0, np.nan, found)

    def ranking(name: str, column: ArrayLike) -> tuple[dict[str, float | None], int | None]:
        scored = rows(name, column)
        within, counted = (np.nan, None) if codes is None else gauc(y, scored, codes)
        return {"auc": _or_none(auc(y, scored)), "gauc": _or_none(within)}, counted

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)  # reported as None
        own, counted = ranking("scores", scores)
        best = None
        if ceiling is not None:
            best, _ = ranking("ceiling", ceiling)
            best["logloss"] = _or_none(logloss(y, rows("ceiling", ceiling)))
        return {
            "rows": y.size,
            "positives": int(np.count_nonzero(y)),
            **own,
            "gauc_groups": counted,
            "logloss": _or_none(logloss(y, rows("scores", scores))),
            "calibration": _or_none(calibration(y, rows("scores", scores))),
            "ceiling": best,
            "baselines": {n: ranking(n, column)[0] for n, column in (baselines or {}).items()},
        }


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else value
