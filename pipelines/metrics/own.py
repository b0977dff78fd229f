"""Metrics of a user: functions of labels and scores, by their registered names."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recsys_attn.registry import NamedParts

METRICS: NamedParts[Callable[..., float]] = NamedParts("metric")


def own_metrics(
    wanted: Mapping[str, Mapping[str, Any]],
    labels: ArrayLike,
    scores: ArrayLike,
    requests: NDArray[np.integer],
) -> dict[str, float | None]:
    """Registered metrics of one task on its labelled rows.

    Args:
        wanted: Options by the name of the metric.
        labels: 0, 1, or nan for unknown, shape (rows,).
        scores: The score of each row, shape (rows,).
        requests: The number of each row's request, for a metric with the argument `requests`.

    Returns:
        The number of each metric; None if it is not finite.

    Raises:
        ValueError: A metric returns no number.
    """
    labels, scores = np.asarray(labels, np.float64), np.asarray(scores, np.float64)
    known = ~np.isnan(labels)
    found = {}
    for name, options in wanted.items():
        metric = METRICS[name]
        within = {"requests": requests[known]} if takes_requests(metric) else {}
        value = metric(labels[known], scores[known], **within, **options)
        if not isinstance(value, int | float | np.number):
            raise ValueError(
                f"the metric {name!r} must return one number. Received: {value!r} of type "
                f"{type(value).__name__}"
            )
        found[name] = float(value) if math.isfinite(value) else None
    return found


def takes_requests(metric: Callable[..., float]) -> bool:
    """Whether a metric compares the rows of a request."""
    return "requests" in inspect.signature(metric).parameters
