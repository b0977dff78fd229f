"""Features of which the train split has no value."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.common.missing import is_missing
from pipelines.features.fit import raw_values
from pipelines.storage.dataset import DataSplit, Reader
from recsys_attn.schema import Feature, Schema


def empty_features(schema: Schema, split: DataSplit) -> list[str]:
    """Returns the names of the features without a value in any row.

    Reads row groups only until each feature has had a value, which is usually in the first.
    """
    left, footers = list(schema.features), split.footers
    for number in range(len(footers)):
        if not left:
            break
        with Reader(footers, [feature.name for feature in left]) as reader:
            table = reader.read([number])
        left = [feature for feature in left if not _has_value(feature, table)]
    return [feature.name for feature in left]


def nothing_to_learn(name: str) -> str:
    """The warning for such a feature."""
    return (
        f"Feature {name!r} has no value in the train split, so nothing is learned from it: check "
        "how its column is made, or remove it."
    )


def _has_value(feature: Feature, table: pa.Table) -> bool:
    values = raw_values(feature, table)
    if pa.types.is_floating(values.type):
        return values.null_count < len(values)
    return not pc.all(is_missing(values), min_count=0).as_py()
