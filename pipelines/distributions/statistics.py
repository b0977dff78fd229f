"""Mergeable statistics of features and scores, of training data and logs."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.distributions.value_counts import NOTHING, Counts, number_keys
from pipelines.features import FittedFeatures
from pipelines.features.fitted import feature_column
from pipelines.features.graph_transform import finite_numbers
from pipelines.storage.dataset import open_parquet
from recsys_attn.id_transforms import Age, Hash, OwnTransform, Quantile
from recsys_attn.schema import (
    PADDING_ID,
    RESERVED_IDS,
    UNKNOWN_ID,
    Categorical,
    Feature,
    Numeric,
    Side,
    is_listed,
)

# Counts by name: `feature/NAME/present` (1 for rows with a value, else 0), `values`
# (bins of ids), `numbers`, `lengths`; `task/NAME/labels`, `scores`.
Statistics = Mapping[str, Counts]
FILE = "statistics.parquet"
UNKNOWN_BIN = -1
_HASH_BINS = 20
# A vocabulary is sorted by how frequent its values were: ten have a bin each, the others share
# those of 1, 2, 5, 10, ... times as many.
_RANKS = np.array([*range(1, 10), *(m * 10**e for e in range(1, 9) for m in (1, 2, 5))])


def merge(first: Statistics, second: Statistics) -> dict[str, Counts]:
    """Merges the statistics of two parts of the data."""
    return {
        name: first.get(name, NOTHING).merged(second.get(name, NOTHING))
        for name in sorted({*first, *second})
    }


def of_features(fitted: FittedFeatures, table: pa.Table, side: Side) -> dict[str, Counts]:
    """Statistics of one side's features; each row counts once."""
    inputs = fitted.apply(table, side)
    statistics: dict[str, Counts] = {}
    for feature in fitted.schema.features:
        if feature.side == side:
            prefix = f"feature/{feature.name}"
            parts = _of_feature(fitted, feature, table, inputs[feature.name])
            statistics.update({f"{prefix}/{part}": counts for part, counts in parts.items()})
    return statistics


def of_scores(scores: Mapping[str, np.ndarray]) -> dict[str, Counts]:
    """Statistics of scores by task."""
    return {
        f"task/{task}/scores": Counts.of(number_keys(values[np.isfinite(values)]))
        for task, values in scores.items()
    }


def of_labels(labels: Mapping[str, np.ndarray]) -> dict[str, Counts]:
    """Statistics of labels by task; NaN is unknown."""
    return {
        f"task/{task}/labels": Counts.of(values[~np.isnan(values)])
        for task, values in labels.items()
    }


def _of_feature(
    fitted: FittedFeatures, feature: Feature, table: pa.Table, values: np.ndarray
) -> dict[str, Counts]:
    if isinstance(feature, Numeric):
        return _of_numbers(feature, table)
    present = values != PADDING_ID
    ids = values[present]
    known = ids != UNKNOWN_ID
    bins = np.full(len(ids), UNKNOWN_BIN)
    bins[known] = value_bins(fitted, feature, ids[known])
    counts = {"values": Counts.of(bins)}
    if is_listed(feature):
        lengths = present.sum(axis=1)
        return {**counts, "lengths": Counts.of(lengths), "present": Counts.of(lengths > 0)}
    if isinstance(feature, Categorical) and feature.dtype == "float32":
        counts |= _of_numbers(feature, table)
    return {**counts, "present": Counts.of(present)}


def _of_numbers(feature: Feature, table: pa.Table) -> dict[str, Counts]:
    numbers = finite_numbers(feature_column(table, feature))
    present = np.zeros(table.num_rows, np.int64)
    present[: len(numbers)] = 1
    return {"numbers": Counts.of(number_keys(numbers)), "present": Counts.of(present)}


def value_bins(fitted: FittedFeatures, feature: Feature, ids: np.ndarray) -> np.ndarray:
    """The bin of known ids: by rank in the vocabulary, by hash, or the fitted bucket."""
    ranks = ids.astype("int64") - RESERVED_IDS
    transform = _transform(fitted, feature)
    if isinstance(transform, Hash | OwnTransform):
        return ranks % _HASH_BINS
    if isinstance(transform, Quantile):
        return ranks
    if isinstance(transform, Age):
        return np.log2(ranks + 1).astype("int64")
    return np.searchsorted(_RANKS, ranks, side="right")


def bin_name(fitted: FittedFeatures, feature: Feature, number: int) -> str:
    """The name of a bin of values, for the report."""
    if number == UNKNOWN_BIN:
        return "unknown"
    transform, state = _transform(fitted, feature), fitted.transform_of(feature.name).state()
    if isinstance(transform, Hash | OwnTransform):
        return f"hash {number}" if isinstance(transform, Hash) else f"ids {number}"
    if isinstance(transform, Age):
        return f"{2**number - 1:,} to {2 ** (number + 1) - 2:,} s"
    if isinstance(transform, Quantile):
        edges = ["-\u221e", *(f"{edge:.4g}" for edge in state["boundaries"]), "\u221e"]
        return f"{edges[number]} to {edges[number + 1]}"
    if number < 10 and number < len(state["values"]):
        return str(state["values"][number].as_py())
    first = int(_RANKS[number - 1])
    last = int(_RANKS[number]) if number < len(_RANKS) else len(state["values"])
    return f"values {first + 1:,} to {min(last, len(state['values'])):,}"


def _transform(fitted: FittedFeatures, feature: Feature) -> object:
    owner = fitted.schema[fitted.schema.table_owner(feature.name)]
    return getattr(owner, "transform", None)


def save(statistics: Statistics, folder: Path) -> None:
    """Writes one Parquet file with a row per count."""
    names = np.repeat(
        np.array(list(statistics), object), [len(c.keys) for c in statistics.values()]
    )
    counts = [*statistics.values(), NOTHING]
    table = pa.table(
        {
            "name": pa.array(names, pa.string()),
            "key": np.concatenate([part.keys for part in counts]),
            "count": np.concatenate([part.counts for part in counts]),
        }
    )
    pq.write_table(table, folder / FILE, compression="zstd")


def load(folder: Path) -> dict[str, Counts]:
    """Loads the statistics that `save` wrote; empty counts are left out."""
    with open_parquet(folder / FILE) as file:
        table = file.read()
    names = table["name"].to_numpy()
    keys, counts = table["key"].to_numpy(), table["count"].to_numpy()
    begins = np.flatnonzero(names[1:] != names[:-1]) + 1
    bounds = np.concatenate([[0], begins, [len(names)]])
    return {
        str(names[start]): Counts(keys[start:end], counts[start:end])
        for start, end in itertools.pairwise(bounds)
        if end > start
    }
