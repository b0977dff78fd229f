"""True training-serving skew: compares logged scores with those of the training path."""

from __future__ import annotations

from typing import Any

import numpy as np

from pipelines.features import FittedFeatures
from pipelines.prediction_log.decode import LoggedRequests
from pipelines.prediction_log.log_folder import LoggedCall
from pipelines.scoring.scorer import Scorer
from recsys_attn.models import RankingModel

_REQUEST = "number of the request"  # no feature can have this name


def recompute(
    sample: list[tuple[LoggedCall, LoggedRequests]],
    fitted: FittedFeatures,
    model: RankingModel,
    tolerance: float,
) -> dict[str, Any]:
    """Scores logged requests again from their raw values and compares.

    Args:
        sample: Calls and their requests.
        fitted: The run's transforms.
        model: The run's model.
        tolerance: Largest allowed difference of a score.

    Returns:
        The compared calls and rows and, by task, the largest difference, its row, and the number
        of rows above the tolerance.
    """
    scorer = Scorer(model)
    tasks: dict[str, dict[str, Any]] = {}
    rows = 0
    for entry, requests in sample:
        rows += requests.rows
        scores = scorer.score_table(requests.table(_REQUEST), fitted, _REQUEST)
        for task, logged in requests.scores.items():
            difference = np.abs(logged.astype("float64") - scores[task])
            difference[np.isnan(difference)] = np.inf
            result = tasks.setdefault(
                task, {"rows": 0, "over": 0, "max_abs_difference": 0.0, "where": None}
            )
            result["rows"] += len(difference)
            result["over"] += int((difference > tolerance).sum())
            row = int(difference.argmax()) if len(difference) else -1
            if row >= 0 and difference[row] > result["max_abs_difference"]:
                result["max_abs_difference"] = float(difference[row])
                result["where"] = {
                    "request_id": entry.request_id,
                    "version": entry.version,
                    "candidate": row,
                    "logged": float(logged[row]),
                    "recomputed": float(scores[task][row]),
                }
    return {"calls": len(sample), "rows": rows, "tolerance": tolerance, "tasks": tasks}
