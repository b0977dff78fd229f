"""The value of a feature from its past."""

from __future__ import annotations

import numpy as np

from serving.state.definitions.aggregate_options import AggregateOptions
from serving.state.past.past import Past

FRACTION_BITS = 32
_MASK = (1 << FRACTION_BITS) - 1


def feature_values(
    options: AggregateOptions,
    past: Past,
    key: np.ndarray | None,
    moment: np.ndarray,
    prior: np.ndarray | None = None,
    begin: np.ndarray | None = None,
) -> np.ndarray:
    """The aggregate of the events before each moment as float32; NaN where nothing is known.

    Args:
        options: The definition.
        past: Its past.
        key: `(rows,)`; None: one row for each key.
        moment: `(rows,)`, in the unit of the times.
        prior: `(rows, 2)`, of a rate with a running prior: events and positives of all keys.
        begin: `(rows,)`, of a rule that forgets: the time from which the key has a past.
    """
    if options.kind in ("since_last", "distinct"):
        if key is None:
            start, end = past.ranges_of_keys(moment, begin)
        else:
            start, end = past.ranges(key, moment, begin)
        if options.kind == "distinct":
            return past.distinct(start, end).astype(np.float32)
        time = np.append(past.time, 0)[end - 1]
        age = np.where(end > start, (moment - time) / past.rule.second, np.nan)
        return age.astype(np.float32)
    totals = past.totals_before(key, moment, begin)
    return _of_totals(options, totals, totals if prior is None else prior).astype(np.float32)


def _of_totals(options: AggregateOptions, totals: np.ndarray, prior: np.ndarray) -> np.ndarray:
    events = totals[:, 0].astype(np.float64)
    if options.kind == "count":
        return events
    with np.errstate(invalid="ignore", divide="ignore"):
        if options.kind == "rate":
            return _rate(options, events, totals[:, 1], prior)
        whole = totals[:, 1] + (totals[:, 2] >> FRACTION_BITS)
        total = whole.astype(np.float64) + (totals[:, 2] & _MASK) * 2.0**-FRACTION_BITS
        return total if options.kind == "sum" else total / events


def _rate(
    options: AggregateOptions, events: np.ndarray, positives: np.ndarray, prior: np.ndarray
) -> np.ndarray:
    strength = options.prior_strength
    if strength == 0:
        return positives / events
    share = prior[:, 1] / prior[:, 0] if options.prior_rate is None else options.prior_rate
    return (positives + strength * share) / (events + strength)
