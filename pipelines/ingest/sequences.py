"""The source `sequences`: one row per user with a list of items, as next-item rows.

Each item but a user's first becomes a row with the items before it. A user's last item is a test
row, the one before a validation row, and the others are training rows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.common.errors import PipelineError
from pipelines.ingest import table_files
from pipelines.ingest.common_schema import common_files
from pipelines.ingest.data_options import DataOptions
from pipelines.ingest.source import CHUNK_ROWS, SPLITS, Columns, Source, SourceFile
from serving.state.errors import require_column

HISTORY, LABEL = "history", "next"


def read(options: DataOptions) -> Source:
    """Reads the rows of all users, by split."""
    source = table_files.read_parquet(options)
    stored = [file for part in source.parts.values() for file in part]
    files = common_files(stored, {}, _names(options))
    parts = {split: [_next_items(file, options, split) for file in files] for split in SPLITS}
    return dataclasses.replace(source, parts=parts)


def _next_items(file: SourceFile, options: DataOptions, split: str) -> SourceFile:
    def rows(columns: Columns) -> Iterator[pa.Table]:
        for users in file.read(None):
            yield from _rows(_checked(users, options, file.where), options, split)

    return SourceFile(f"{file.where} ({split})", rows)


def _checked(users: pa.Table, options: DataOptions, where: str) -> pa.Table:
    name, key = _names(options)
    require_column(users.column_names, name, "data.sequences.items", where)
    kind = users[name].type
    if not pa.types.is_list(kind):
        raise PipelineError(
            f"{where}: column {name!r} (data.sequences.items): expected a list of items in each "
            f"row, received {kind}."
        )
    for column in {key, HISTORY, LABEL} - {name}:
        if column in users.column_names:
            raise PipelineError(
                f"{where}: the source 'sequences' makes a column {column!r}, and the file has one. "
                "Rename or remove it."
            )
    if pc.list_flatten(users[name]).null_count:
        raise PipelineError(f"{where}: column {name!r}: expected lists without nulls; drop them.")
    return users


def _names(options: DataOptions) -> tuple[str, str]:
    if options.sequences is None or options.items is None:
        raise ValueError("`options` need `sequences` and `items`. Received: none")
    return options.sequences.items, options.items.key


def _rows(users: pa.Table, options: DataOptions, split: str) -> Iterator[pa.Table]:
    """The rows of one split, in tables of bounded size."""
    name, key = _names(options)
    longest = options.sequences.max_length if options.sequences else 0
    lists = users[name].combine_chunks()
    values = pc.list_flatten(lists)
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy().astype(np.int64)
    starts = np.cumsum(lengths) - lengths
    first, last = _TARGETS[split](lengths)  # of each user, exclusive of the last
    counts = np.maximum(last - first, 0)
    user = np.repeat(np.arange(len(lengths)), counts)
    place = np.arange(len(user)) - np.repeat(np.cumsum(counts) - counts - first, counts)
    others = users.drop_columns([name])
    for begin in range(0, len(user), CHUNK_ROWS):
        chunk = slice(begin, begin + CHUNK_ROWS)
        events = np.minimum(place[chunk], longest)
        ends = starts[user[chunk]] + place[chunk]
        offsets = np.concatenate([[0], np.cumsum(events)])
        index = np.arange(offsets[-1]) + np.repeat(ends - events - offsets[:-1], events)
        history = pa.ListArray.from_arrays(
            pa.array(offsets, pa.int32()), values.take(pa.array(index))
        )
        rows = others.take(pa.array(user[chunk]))
        rows = rows.append_column(key, values.take(pa.array(ends)))
        rows = rows.append_column(HISTORY, history)
        yield rows.append_column(LABEL, pa.array(np.ones(len(ends), np.int8)))


Bounds = tuple[np.ndarray, np.ndarray]
_TARGETS: dict[str, Callable[[np.ndarray], Bounds]] = {
    "train": lambda lengths: (np.ones_like(lengths), lengths - 2),
    "valid": lambda lengths: (np.maximum(lengths - 2, 1), lengths - 1),
    "test": lambda lengths: (np.maximum(lengths - 1, 1), lengths),
}
