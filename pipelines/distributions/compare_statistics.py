"""Compares statistics of the log with those of the reference, as plain data for the report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipelines.distributions.distance import chance, jensen_shannon, judge, psi
from pipelines.distributions.statistics import UNKNOWN_BIN, Statistics, bin_name
from pipelines.distributions.value_counts import NOTHING, Counts, key_numbers
from pipelines.features import FittedFeatures
from recsys_attn.id_transforms import Vocabulary
from recsys_attn.schema import Feature

QUANTILES = {"min": 0.0, "p01": 0.01, "p10": 0.1, "p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
_PARTS = 10  # of the reference's numbers, lengths and scores: tenths
_ORDER = ("shifted", "watch", "few rows", "stable")


@dataclass(frozen=True)
class Bins:
    """Counts of reference and log over the same bins.

    Attributes:
        names: Names of the bins.
        reference, served: `(bins,)`.
        units: Number of independent values on either side.
    """

    names: list[str]
    reference: np.ndarray
    served: np.ndarray
    units: tuple[int, int]

    def distance(self) -> dict[str, Any]:
        """Stability index, its level by chance, divergence and status."""
        index = psi(self.reference, self.served)
        by_chance = chance(len(self.names), *self.units)
        return {
            "psi": index,
            "chance": by_chance if np.isfinite(by_chance) else None,
            "js": jensen_shannon(self.reference, self.served),
            "status": judge(index, by_chance),
            "bins": [
                {"name": name, "reference": float(p), "served": float(q)}
                for name, p, q in zip(
                    self.names, _shares(self.reference), _shares(self.served), strict=True
                )
            ],
        }


def compare_feature(
    fitted: FittedFeatures, feature: Feature, reference: Statistics, served: Statistics
) -> dict[str, Any]:
    """A feature's distances, missing and unknown shares, quantiles and lengths."""
    prefix = f"feature/{feature.name}/"
    present = _pair("present", prefix, reference, served)
    values = _pair("values", prefix, reference, served)
    numbers = _pair("numbers", prefix, reference, served)
    lengths = _pair("lengths", prefix, reference, served)
    units = (present[0].total, present[1].total)
    listed = bool(lengths[0].total or lengths[1].total)
    if values[0].total or values[1].total:
        bins = _value_bins(fitted, feature, values, units)
    else:
        bins = _number_bins(numbers, units)
    if not listed:  # a missing value is one more bin
        missing = [np.array([part.at(0)]) for part in present]
        bins = Bins(
            ["missing", *bins.names],
            np.concatenate([missing[0], bins.reference]),
            np.concatenate([missing[1], bins.served]),
            units,
        )
    entry = {"kind": feature.kind, "side": feature.side, **bins.distance()}
    entry["missing"] = _both(present, lambda part: _share(part, 0))
    knows = isinstance(getattr(_owner(fitted, feature), "transform", None), Vocabulary)
    entry["unknown"] = _both(values, lambda part: _share(part, UNKNOWN_BIN)) if knows else None
    entry["quantiles"] = _both(numbers, _quantiles) if numbers[0].total else None
    entry["lengths"] = None
    if listed:
        distance = _number_bins(lengths, units, whole=True).distance()
        entry["lengths"] = {**distance, **_both(lengths, lambda part: _quantiles(part, True))}
        entry["status"] = min(entry["status"], distance["status"], key=_ORDER.index)
    return entry


def compare_task(
    name: str, reference: Counts, label_rate: float | None, served: Statistics
) -> dict[str, Any]:
    """A task's scores against those of the evaluation, or against the label rate alone."""
    scores = served.get(f"task/{name}/scores", NOTHING)
    entry: dict[str, Any] = {
        "rows": scores.total,
        "mean": {"reference": _mean(reference), "served": _mean(scores)},
        "label_rate": label_rate,
        "quantiles": _both((reference, scores), _quantiles),
    }
    if reference.total and scores.total:
        bins = _number_bins((reference, scores), (reference.total, scores.total))
        return {**entry, **bins.distance()}
    return {**entry, "psi": None, "chance": None, "js": None, "status": None, "bins": []}


def label_rate(reference: Statistics, task: str) -> float | None:
    """Share of a task's known labels that are 1."""
    labels = reference.get(f"task/{task}/labels", NOTHING)
    return labels.at(1) / labels.total if labels.total else None


def _pair(part: str, prefix: str, reference: Statistics, served: Statistics) -> tuple[Counts, ...]:
    return tuple(side.get(prefix + part, NOTHING) for side in (reference, served))


def _owner(fitted: FittedFeatures, feature: Feature) -> Feature:
    return fitted.schema[fitted.schema.table_owner(feature.name)]


def _value_bins(
    fitted: FittedFeatures, feature: Feature, values: tuple[Counts, ...], units: tuple[int, int]
) -> Bins:
    keys = np.union1d(values[0].keys, values[1].keys)
    names = [bin_name(fitted, feature, int(key)) for key in keys]
    reference, served = (np.array([part.at(int(key)) for key in keys]) for part in values)
    return Bins(names, reference, served, units)


def _number_bins(numbers: tuple[Counts, ...], units: tuple[int, int], whole: bool = False) -> Bins:
    edges = numbers[0].edges(_PARTS)
    begins = edges if whole else key_numbers(edges)
    lows = ["", *(f"{value:.4g}" for value in begins)]
    highs = [*(f"{value:.4g}" for value in (edges - 1 if whole else begins)), ""]
    below = "up to" if whole else "below"
    names = [
        f"{low} to {high}" if low and high else f"{below} {high}" if high else f"{low} or more"
        for low, high in zip(lows, highs, strict=True)
    ]
    reference, served = (part.cut(edges) for part in numbers)
    return Bins(names if len(edges) else ["any"], reference, served, units)


def _quantiles(part: Counts, whole: bool = False) -> dict[str, float] | None:
    if not part.total:
        return None
    keys = np.array([part.quantile_key(share) for share in QUANTILES.values()])
    values = keys if whole else key_numbers(keys)
    named = dict(zip(QUANTILES, map(float, values), strict=True))
    return {"mean": _mean(part, whole) or 0.0, **named}


def _mean(part: Counts, whole: bool = False) -> float | None:
    if not part.total:
        return None
    values = part.keys if whole else key_numbers(part.keys).astype("float64")
    return float((values * part.counts).sum() / part.total)


def _share(part: Counts, key: int) -> float | None:
    return part.at(key) / part.total if part.total else None


def _shares(counts: np.ndarray) -> np.ndarray:
    return counts / max(counts.sum(), 1)


def _both(parts: tuple[Counts, ...], show: Any) -> dict[str, Any]:
    return {"reference": show(parts[0]), "served": show(parts[1])}


def flagged(features: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Names of the shifted features or tasks, the largest shift first."""
    shifted = [name for name, part in features.items() if part["status"] == "shifted"]
    return sorted(shifted, key=lambda name: -_largest(features[name]))


def _largest(part: Mapping[str, Any]) -> float:
    return max(part["psi"] or 0.0, (part.get("lengths") or {}).get("psi", 0.0))
