"""Counts of the splits: labels, requests to rank and times."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.common.errors import PipelineError
from pipelines.ingest.data_options import DataOptions
from pipelines.ingest.source import SPLITS, Source
from pipelines.storage.request_rows import run_starts
from recsys_attn.schema import Schema, Task
from serving.state.columns.times import shown_time, to_ticks


class SplitSummary:
    """Counts the rows of each split as they are written.

    Attributes:
        labels: `labels[task][split] = [known, positive]`.
        comparable: `comparable[task][split]`: requests with a positive and a negative.
    """

    def __init__(self, schema: Schema | None, options: DataOptions, source: Source) -> None:
        self._tasks = schema.tasks if schema else ()
        self._request = source.request
        self._time = _time_column(options, source)
        self._times: dict[str, tuple[Any, Any]] = {}  # the first and the last, by split
        self._kind = pa.null()  # their type
        self._unmasked: Counter[tuple[str, str]] = Counter()
        self.labels = {task.name: {split: [0, 0] for split in SPLITS} for task in self._tasks}
        self.comparable = {task.name: dict.fromkeys(SPLITS, 0) for task in self._tasks}

    def add(self, split: str, rows: pa.Table) -> None:
        """Adds rows of whole requests."""
        if not rows.num_rows:
            return
        for task in self._tasks:
            label = known_labels(rows, task)
            if task.mask is not None:
                self._unmasked[task.name, split] += (
                    pc.sum(rows[task.mask].cast(pa.bool_())).as_py() or 0
                )
            count = self.labels[task.name][split]
            count[0] += len(label) - label.null_count
            count[1] += pc.sum(label).as_py() or 0
            if self._request is not None:
                starts = run_starts(rows[self._request])
                self.comparable[task.name][split] += _comparable(label, starts)
        if self._time in rows.column_names:
            known = rows[self._time].drop_null()
            times = to_ticks(known, self._time or "", "data.split.column", split)
            if len(times):
                ends = *self._times.get(split, ()), times.min().item(), times.max().item()
                self._times[split], self._kind = (min(ends), max(ends)), known.type

    @property
    def times(self) -> dict[str, Any] | None:
        """The time column, and the first and last time by split; None without such a column."""
        if not self._times:
            return None
        ends = {
            split: [shown_time(end, self._kind) for end in times]
            for split, times in self._times.items()
        }
        return {"column": self._time, **ends}

    def check(self, may_draw: bool = False) -> None:
        """Raises an error if a split lacks positive or negative labels.

        Args:
            may_draw: Whether negatives may be drawn, so that the train rows need none.
        """
        for task, split in itertools.product(self._tasks, ("train", "valid")):
            known, positive = self.labels[task.name][split]
            if positive and positive == known and may_draw:
                if split == "train":
                    continue
                raise PipelineError(
                    f"The task {task.name!r} has no negative rows in the split {split!r}. Set "
                    "`data.items.negatives`, such as 100, to draw them."
                )
            if positive in (0, known):
                raise PipelineError(self._lack(task, split, known, positive))

    def _lack(self, task: Task, split: str, known: int, positive: int) -> str:
        lacks = "positive" if positive == 0 else "negative"
        masked = ""
        if task.mask is not None and not self._unmasked[task.name, split]:
            masked = f"the mask {task.mask!r} is false in every row; "
        return (
            f"The task {task.name!r} has no {lacks} rows in the split {split!r}: of {known} rows "
            f"with a known label, {positive} are 1; {masked}check the column "
            f"{task.label_column!r} and data.split."
        )


def known_labels(rows: pa.Table, task: Task) -> pa.ChunkedArray:
    """Returns the labels of a task, null where its mask is false."""
    label = rows[task.label_column]
    if task.mask is None:
        return label
    return pc.if_else(rows[task.mask].cast(pa.bool_()), label, pa.scalar(None, label.type))


def _time_column(options: DataOptions, source: Source) -> str | None:
    """The column of a split by time, else the source's own, else that of a history."""
    if options.split.by == "time" and options.split.column:
        return options.split.column
    return source.time or next((history.time for history in options.histories), None)


def _comparable(label: pa.ChunkedArray, starts: np.ndarray) -> int:
    values = label.cast(pa.float32()).to_numpy()
    both = (np.logical_or.reduceat(values == value, starts) for value in (0, 1))
    return int(np.logical_and(*both).sum())
