"""Histories and targets of evaluated rows, each with the whole history's items."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.features import FittedFeatures
from pipelines.features.fitted import raw_column
from pipelines.features.lists import flatten_list, pad_last
from pipelines.ingest.events.ingest_events import ITEM_COUNTS
from pipelines.storage.dataset import DataSplit
from recsys_attn.schema import PADDING_ID

ABSENT = -1
IDS = 2**22  # of whole rows at a time, at most 100 MB


@dataclass(frozen=True)
class EvaluatedHistories:
    """Some users' histories and next items.

    Attributes:
        inputs: Ids `(B, S)` by sequence: the last events before the target.
        targets: Ids of the next items `(B,)`.
        seen: Ids of all items of the histories `(B, any)`, filled up with -1.
    """

    inputs: dict[str, np.ndarray]
    targets: np.ndarray
    seen: np.ndarray


def read_histories(
    split: DataSplit, fitted: FittedFeatures, item: str, size: int, most: int | None = None
) -> Iterator[EvaluatedHistories]:
    """Reads the rows of a split, which end with their targets.

    Args:
        split: The rows.
        fitted: The transforms, of histories with one event more than the model sees.
        item: The sequence of items.
        size: The most users at a time.
        most: The most users; None for all.
    """
    names = [feature.name for feature in fitted.schema.features]
    left = split.rows if most is None else most
    for table in split.batches(names):
        for begin in range(0, min(table.num_rows, left), size):
            yield _histories(table.slice(begin, min(size, left - begin)), fitted, item)
        left -= table.num_rows
        if left <= 0:
            return


def read_items(split: DataSplit, fitted: FittedFeatures, item: str) -> Iterator[np.ndarray]:
    """Reads the ids of all items of the rows `(rows, any)`, padded with 0, some rows at a time.

    Args:
        split: The rows.
        fitted: The transforms.
        item: The sequence of items.
    """
    for table in split.batches([item]):
        ids, offsets = _items(table, fitted, item)
        longest = max(1, int(np.diff(offsets).max(initial=0)))
        size = max(1, IDS // longest)
        for begin in range(0, table.num_rows, size):
            yield pad_last(ids, offsets[begin : begin + size + 1], longest)


def item_counts(data: Path, fitted: FittedFeatures, item: str) -> np.ndarray:
    """Returns how often each item id occurs in the train rows `(size,)`.

    Args:
        data: The folder with the splits.
        fitted: The transforms.
        item: The sequence of items.
    """
    table = pq.read_table(data / ITEM_COUNTS)
    ids = fitted.transform_of(item).apply(table[item].combine_chunks())
    size = getattr(fitted.schema[item], "size", 0)
    return np.bincount(ids, table["count"].to_numpy(), minlength=size).astype("float32")


def _histories(table: pa.Table, fitted: FittedFeatures, item: str) -> EvaluatedHistories:
    ids = fitted.apply(table, "context")
    count = np.any([x != PADDING_ID for x in ids.values()], axis=0).sum(axis=1)
    rows, last = np.arange(len(count)), np.maximum(count - 1, 0)
    targets = ids[item][rows, last]
    inputs = {}
    for name, x in ids.items():
        x[rows, last] = PADDING_ID
        inputs[name] = x[:, :-1]
    return EvaluatedHistories(inputs, targets, _seen(table, fitted, item))


def _items(table: pa.Table, fitted: FittedFeatures, item: str) -> tuple[np.ndarray, np.ndarray]:
    """The ids of all items of the rows, one after another, and the offsets of the rows."""
    column = raw_column(table, item, fitted.schema[item].dtype, listed=True)
    flat, offsets = flatten_list(column)
    return fitted.transform_of(item).apply(flat), offsets


def _seen(table: pa.Table, fitted: FittedFeatures, item: str) -> np.ndarray:
    ids, offsets = _items(table, fitted, item)
    lengths = np.diff(offsets) - 1  # without the target
    inside = np.arange(max(1, lengths.max(initial=0))) < lengths[:, None]
    seen = np.full(inside.shape, ABSENT, "int32")
    keep = np.ones(len(ids), bool)
    keep[offsets[1:] - 1] = False
    seen[inside] = ids[keep]
    return seen
