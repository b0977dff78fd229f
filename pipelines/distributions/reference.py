"""Statistics of a split, the reference for a log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np
import pyarrow as pa

from pipelines.distributions.statistics import Statistics, merge, of_features, of_labels
from pipelines.engines import LOCAL
from pipelines.features import FittedFeatures
from pipelines.feed.chunk import own_request
from pipelines.ingest.split_summary import known_labels
from pipelines.ingest.table_checks import check_table
from pipelines.ingest.user_features import columns_to_read, with_users
from pipelines.storage.dataset import DataSplit, Reader
from pipelines.storage.footers import Footers
from pipelines.storage.raw_columns import raw_columns
from pipelines.storage.request_rows import request_starts
from recsys_attn.schema import Task


def of_split(
    split: DataSplit,
    fitted: FittedFeatures,
    request: str | None,
    progress: Callable[[int], None],
    labels: bool = True,
) -> Statistics:
    """Statistics of all rows of a split, in one pass over its row groups.

    Args:
        split: Rows with the features' columns.
        fitted: The transforms whose bins are counted.
        request: Column of the request id; a context counts once. None: every row counts.
        progress: Shows the rows done.
        labels: Whether to count labels too.
    """
    footers = split.footers
    work = partial(_counting, footers, fitted, request, labels)
    counted: Statistics = LOCAL.map_reduce(
        work, range(len(footers)), merge, lambda number: progress(int(footers.rows[number]))
    )
    return counted


@contextmanager
def _counting(
    footers: Footers, fitted: FittedFeatures, request: str | None, labels: bool
) -> Iterator[Callable[[int], Statistics]]:
    """Yields a function from the number of a row group to its statistics."""
    # The train split has the features of items and users; other rows may have their ids only.
    schema = raw_columns(fitted.schema) if labels else fitted.raw_schema
    tasks = schema.tasks if labels else ()
    needed = [feature.name for feature in schema.features]
    needed += [name for task in tasks for name in (task.label_column, task.mask) if name]
    needed += [request] if request else []
    by_request = own_request(schema, request)

    def count(number: int) -> Statistics:
        table = reader.read([number])
        where = footers.file_name(footers.file[number])
        table = with_users(table, fitted.users, where)
        table = check_table(table, schema, where, labels, int(footers.first_row[number]))
        table = table if labels else fitted.joined(table)
        context = table
        if by_request is not None:
            context = table.take(pa.array(request_starts(table, by_request)[:-1]))
        return {
            **of_features(fitted, context, "context"),
            **of_features(fitted, table, "candidate"),
            **of_labels({task.name: label_numbers(table, task) for task in tasks}),
        }

    needed = columns_to_read(list(dict.fromkeys(needed)), fitted.users, footers.types.names)
    with Reader(footers, needed) as reader:
        yield count


def label_numbers(table: pa.Table, task: Task) -> np.ndarray:
    """The labels of a task, nan where they are null or masked."""
    return known_labels(table, task).cast(pa.float64()).to_numpy()
