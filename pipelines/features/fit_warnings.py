"""Warnings about features without a value, or of numbers that float32 does not keep apart."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.features.fit import columns_of, owners, raw_values
from pipelines.storage.dataset import DataSplit, Reader
from recsys_attn.schema import Feature, Schema
from serving.state.columns.missing import is_missing

_FEW = 1024  # values between the smallest and the largest number
_WHOLE = 2.0**24  # float32 has all whole numbers below it


def coarse_features(schema: Schema, split: DataSplit) -> list[str]:
    """A warning for each feature of numbers that are large and hardly differ.

    Features are float32 in the data, in training and in requests, so what float32 rounds to one
    number stays one. Reads row groups only until each feature has spread enough.

    Args:
        schema: The features.
        split: The split that they are fitted on.
    """
    left = [feature for feature in owners(schema) if feature.dtype == "float32"]
    bounds = {feature.name: (np.inf, -np.inf) for feature in left}
    with Reader(split.footers, columns_of(left)) as reader:
        for number in range(len(split.footers)):
            if not left:
                break
            table = reader.read([number])
            for feature in left:
                values = raw_values(feature, table).drop_null().to_numpy(zero_copy_only=False)
                low, high = bounds[feature.name]
                low, high = values.min(initial=low), values.max(initial=high)
                bounds[feature.name] = float(low), float(high)
            left = [feature for feature in left if _apart(*bounds[feature.name]) <= _FEW]
    return [
        _warning(feature.name, *bounds[feature.name])
        for feature in left
        if _loses(*bounds[feature.name])
    ]


def _apart(low: float, high: float) -> int:
    """The number of float32 numbers from the smallest to the largest."""
    if low > high:
        return 0
    if low < 0 < high:
        return _FEW + 1
    ends = np.abs(np.array([low, high], np.float32)).view(np.int32).astype(np.int64)
    return int(abs(ends[1] - ends[0])) + 1


def _loses(low: float, high: float) -> bool:
    """Whether the numbers may have been others: whole ones below 2^24 are what they were."""
    if low > high or max(abs(low), abs(high)) > _WHOLE:
        return low <= high
    return low < high and not (low.is_integer() and high.is_integer())


def _warning(name: str, low: float, high: float) -> str:
    return (
        f"Feature {name!r} loses values: float32 keeps at most {_apart(low, high):,} apart from "
        f"{low:.10g} to {high:.10g}. Subtract a constant in the files and in requests, such as "
        "the smallest value, or use a difference, such as an age."
    )


def empty_features(schema: Schema, split: DataSplit) -> list[str]:
    """Returns the names of the features without a value in any row.

    Reads row groups only until each feature has had a value, which is usually in the first.
    """
    left, footers = list(schema.features), split.footers
    for number in range(len(footers)):
        if not left:
            break
        with Reader(footers, columns_of(left)) as reader:
            table = reader.read([number])
        left = [feature for feature in left if not _has_value(feature, table)]
    return [feature.name for feature in left]


def nothing_to_learn(name: str) -> str:
    """The warning for a feature without values."""
    return (
        f"Feature {name!r} has no value in the train split, so nothing is learned from it: check "
        "how its column is made, or remove it."
    )


def _has_value(feature: Feature, table: pa.Table) -> bool:
    values = raw_values(feature, table)
    if pa.types.is_floating(values.type):
        return values.null_count < len(values)
    return not pc.all(is_missing(values), min_count=0).as_py()
