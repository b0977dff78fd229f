"""Drift of features between the training rows and the evaluated rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pipelines.distributions.compare_statistics import compare_feature
from pipelines.distributions.p_values import chi_squared, kolmogorov_smirnov
from pipelines.distributions.statistics import Statistics
from pipelines.distributions.value_counts import NOTHING, Counts
from pipelines.features import FittedFeatures
from recsys_attn.schema import Feature

FEW = 1000  # values of the smaller side; above, a p-value finds differences that mean nothing
LEVEL, DISTANCE = 0.05, 0.1
_MISSING = -1  # below all keys of numbers
_PICTURED = 6  # features whose shares are kept for the report


def feature_drift(
    fitted: FittedFeatures, train: Statistics, other: Statistics
) -> list[dict[str, Any]]:
    """Compares the values of each feature between the training rows and others.

    Up to 1,000 values on the smaller side a test decides, at 5 %: Kolmogorov and Smirnov's for
    numbers, chi-squared for ids (with two of them a z test). Above, any difference has a small
    p-value, so the size decides: a Jensen-Shannon distance over 0.1 that chance does not explain.
    Values of a request count once a request; the values of a list count as one. A list has two
    parts, its values and its length: the smaller p-value counts twice, or the larger distance.

    Args:
        fitted: The transforms.
        train: Statistics of the training rows.
        other: Those of the other rows.

    Returns:
        For each feature: `missing` and `unknown` shares of both sides, `test` and its `p` or None,
        the `distance` from 0 to 1, and whether it `drifted`; the largest drift first. The first
        six that drifted have `bins`, their shares.

    Source: as Evidently chooses by size, https://docs.evidentlyai.com.
    """
    entries = [_drift(fitted, feature, train, other) for feature in fitted.schema.features]
    entries.sort(key=lambda entry: (not entry["drifted"], -entry["distance"]))
    pictured = [entry["feature"] for entry in entries if entry["drifted"]][:_PICTURED]
    for entry in entries:
        if entry["feature"] not in pictured:
            del entry["bins"]
    return entries


def _drift(
    fitted: FittedFeatures, feature: Feature, train: Statistics, other: Statistics
) -> dict[str, Any]:
    prefix = f"feature/{feature.name}/"
    parts = compare_feature(fitted, feature, train, other)
    units = tuple(side.get(f"{prefix}present", NOTHING).total for side in (train, other))
    compared = [part for part in (parts, parts["lengths"]) if part]
    entry = {
        "feature": feature.name,
        "kind": feature.kind,
        "side": feature.side,
        "missing": list(parts["missing"].values()),
        "unknown": list(parts["unknown"].values()) if parts["unknown"] else None,
        "test": "distance",
        "p": None,
        "distance": max(math.sqrt(part["js"]) for part in compared),
    }
    if min(units) > FEW:
        drifted = any(
            math.sqrt(part["js"]) > DISTANCE and part["psi"] > (part["chance"] or math.inf)
            for part in compared
        )
    else:
        numbers = [side.get(f"{prefix}numbers", NOTHING) for side in (train, other)]
        ids = f"{prefix}values" in train or f"{prefix}values" in other
        if ids or not numbers[0].total:
            entry["test"], p = "chi-squared", _of_bins(parts["bins"], units)
        else:
            entry["test"] = "Kolmogorov-Smirnov"
            p = kolmogorov_smirnov(*map(_with_missing, numbers, units))
        if parts["lengths"]:
            lengths = (side.get(f"{prefix}lengths", NOTHING) for side in (train, other))
            p = min(1.0, 2 * min(p, kolmogorov_smirnov(*lengths)))
        entry["p"], drifted = p, p < LEVEL
    return {**entry, "drifted": drifted, "bins": _shown(parts)}


def _of_bins(bins: list[dict[str, Any]], units: tuple[int, ...]) -> float:
    sides = zip(("reference", "served"), units, strict=True)
    return chi_squared(*(np.array([part[side] for part in bins]) * n for side, n in sides))


def _with_missing(numbers: Counts, rows: int) -> Counts:
    missing = rows - numbers.total
    return numbers.merged(Counts(np.array([_MISSING]), np.array([missing]))) if missing else numbers


def _shown(parts: dict[str, Any]) -> list[dict[str, Any]]:
    """The shares by bin: of the length of a list if it differs more than the values."""
    lengths = parts["lengths"]
    moved = lengths if lengths and lengths["js"] > parts["js"] else parts
    return [
        {"name": part["name"], "train": part["reference"], "evaluated": part["served"]}
        for part in moved["bins"]
    ]
