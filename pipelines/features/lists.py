"""Ragged lists of ids to padded arrays: drops missing events, keeps the last ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.common.errors import PipelineError
from recsys_attn.schema import PADDING_ID


def flatten_list(column: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """A list column's values in one array, and the offsets `(rows + 1,)` of the rows."""
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    return pc.list_flatten(column), np.concatenate([[0], np.cumsum(lengths)])


def check_aligned(names: Sequence[str], offsets: Sequence[np.ndarray]) -> None:
    """Raises an error if sequences of one history differ in length in a row."""
    for name, other in zip(names[1:], offsets[1:], strict=True):
        different = np.flatnonzero(np.diff(offsets[0]) != np.diff(other))
        if len(different):
            row = int(different[0])
            raise PipelineError(
                f"Sequences of one history must have the same length in every row: {names[0]!r} "
                f"has {np.diff(offsets[0])[row]} events and {name!r} {np.diff(other)[row]} in row "
                f"{row} of this batch. Align them, or give one of them another `history`."
            )


def drop_missing(
    ids: Sequence[np.ndarray], offsets: np.ndarray
) -> tuple[list[np.ndarray], np.ndarray]:
    """Drops the events in which every aligned sequence is missing."""
    is_event = np.any([part != PADDING_ID for part in ids], axis=0)
    if is_event.all():
        return list(ids), offsets
    before = np.concatenate([[0], np.cumsum(is_event)])
    return [part[is_event] for part in ids], before[offsets]


def pad_last(ids: np.ndarray, offsets: np.ndarray, length: int) -> np.ndarray:
    """The last `length` ids of each row, `(rows, length)`, padded on the right.

    >>> pad_last(np.array([7, 8, 9, 5]), np.array([0, 3, 4]), 2).tolist()
    [[8, 9], [5, 0]]
    """
    lengths = np.minimum(np.diff(offsets), length)
    column = np.arange(length)
    inside = column < lengths[:, None]
    padded = np.full(inside.shape, PADDING_ID, "int32")
    padded[inside] = ids[((offsets[1:] - lengths)[:, None] + column)[inside]]
    return padded
