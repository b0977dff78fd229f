"""Adds drawn negatives to the rows of a split, the same for every model."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.common.artifacts import DATA
from pipelines.ingest.data_options import ItemOptions
from pipelines.ingest.item_features import items_of_rows
from pipelines.ingest.source import SPLITS
from pipelines.ingest.writer import SplitWriter
from pipelines.items import ItemTable, Sampler
from pipelines.items.feature_table import ABSENT
from pipelines.storage.dataset import DataSplit
from pipelines.storage.request_rows import run_starts
from recsys_attn.schema import Schema, Task
from recsys_attn.schema import Sequence as History

_AT_ONCE = 32_768  # rows with long histories that are made together
_HALF = "drawn"


def save_items(
    folder: Path,
    items: ItemTable | None,
    options: ItemOptions,
    schema: Schema,
    behind: Path | None = None,
) -> ItemTable:
    """Writes the item table, or if there is none one of the train rows, with its positives.

    Args:
        folder: Folder of the splits.
        items: The item table, if there is one.
        options: The `[data.items]` table.
        schema: Names the tasks.
        behind: The earlier run, whose items are added to those of the rows.
    """
    train = DataSplit(folder / "train")
    if items is None:
        earlier = None if behind is None else ItemTable.load(behind / DATA)
        items = items_of_rows(options.key, train.batches([options.key]), earlier)
    items = count_positives(items, train, schema.tasks)
    items.save(folder)
    return items


def count_positives(items: ItemTable, split: DataSplit, tasks: Sequence[Task]) -> ItemTable:
    """The item table with the number of rows of each item in which any label is 1."""
    labels = list(dict.fromkeys(task.label_column for task in tasks))
    counts = np.zeros(len(items), np.int64)
    for table in split.batches([items.key, *labels]):
        is_one = [pc.fill_null(pc.equal(table[label], 1), False).to_numpy() for label in labels]
        rows = items.rows(table[items.key])[np.any(is_one, axis=0)]
        counts += np.bincount(rows[rows != ABSENT], minlength=len(items))
    return ItemTable(items.key, items.table, counts)


def add_negatives(
    folder: Path,
    split: str,
    items: ItemTable,
    options: ItemOptions,
    schema: Schema,
    request: str,
    seed: int,
) -> Iterator[pa.Table]:
    """Writes a split again with `options.negatives` drawn items for each request.

    The order of a request's rows is random, so that it says nothing of the label. A drawn row has
    the label 0 and a false mask; columns that are no candidate feature are those of the request's
    first row.

    Args:
        folder: Folder of the splits.
        split: Name of the split.
        items: The item table.
        options: The `[data.items]` table.
        schema: Names the features and the tasks.
        request: Column of the request id.
        seed: Seed of the draws.

    Yields:
        The rows, in tables of whole requests.
    """
    maker = _Rows(items, options, schema, request)
    data = DataSplit(folder / split)
    with SplitWriter(folder / _HALF, request) as writer:
        for number, table in enumerate(data.batches(data.columns)):
            rng = np.random.default_rng([seed, SPLITS.index(split), number, 1])
            for part in maker.parts(table):
                rows = maker.made(part, rng)
                writer.write(split, rows)
                yield rows
    shutil.rmtree(folder / split)
    (folder / _HALF / split).rename(folder / split)
    (folder / _HALF).rmdir()


def histories_of(schema: Schema, key: str) -> list[History]:
    """The sequences whose events are items with the id `key`."""
    return [f for f in schema.features if isinstance(f, History) and f.shares == key]


class _Rows:
    def __init__(
        self, items: ItemTable, options: ItemOptions, schema: Schema, request: str
    ) -> None:
        self._items = items
        self._options = options
        self._schema = schema
        self._request = request
        self._sampler = Sampler.uniform(items)

    def parts(self, table: pa.Table) -> Iterator[pa.Table]:
        """The table in parts of whole requests, with room for the drawn rows."""
        starts = np.append(run_starts(table[self._request]), table.num_rows)
        step = max(1, _AT_ONCE // (self._options.negatives + 1))
        for begin in range(0, len(starts) - 1, step):
            first, last = starts[begin], starts[min(begin + step, len(starts) - 1)]
            yield table.slice(first, last - first)

    def made(self, table: pa.Table, rng: np.random.Generator) -> pa.Table:
        """The rows and the drawn ones."""
        starts = run_starts(table[self._request])
        drawn = self._sampler.draw(rng, self._taken(table, starts), self._options.negatives)
        of_request, column = np.nonzero(drawn != ABSENT)
        new = table.take(pa.array(starts[of_request]))
        new = self._with_items(new, drawn[of_request, column])
        requests = np.repeat(np.arange(len(starts)), np.diff(starts, append=table.num_rows))
        number = np.concatenate([requests, of_request])
        order = np.lexsort([rng.random(len(number)), number])
        return pa.concat_tables([table, new]).take(pa.array(order))

    def _taken(self, table: pa.Table, starts: np.ndarray) -> np.ndarray:
        """The rows of the item table that a request must not get."""
        lengths = np.diff(starts, append=table.num_rows)
        parts = [_padded(self._items.rows(table[self._items.key]), lengths)]
        if self._options.unseen:
            first = table.take(pa.array(starts))
            for history in histories_of(self._schema, self._items.key):
                lists = first[history.name].combine_chunks()
                lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
                parts.append(_padded(self._items.rows(pc.list_flatten(lists)), lengths))
        return np.concatenate(parts, axis=1)

    def _with_items(self, table: pa.Table, rows: np.ndarray) -> pa.Table:
        columns = {name: self._items.table[name] for name in self._items.table.column_names}
        replaced = {name: column.take(pa.array(rows)) for name, column in columns.items()}
        for task in self._schema.tasks:
            kind = table.schema.field(task.label_column).type
            replaced[task.label_column] = pa.array(np.zeros(len(rows), np.int8)).cast(kind)
            if task.mask is not None:
                kind = table.schema.field(task.mask).type
                replaced[task.mask] = pa.array(np.zeros(len(rows), bool)).cast(kind)
        for name, column in replaced.items():
            table = table.set_column(table.column_names.index(name), name, column)
        return table


def _padded(values: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Lists of these lengths as the rows of an array, filled up with `ABSENT`."""
    inside = np.arange(lengths.max(initial=0)) < lengths[:, None]
    padded = np.full(inside.shape, ABSENT, "int32")
    padded[inside] = values
    return padded
