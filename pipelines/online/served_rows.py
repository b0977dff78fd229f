"""Labels, scores and groups of served rows, in memory: what metrics are computed from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipelines.experiment.config import Experiment
from pipelines.feed.chunk import labels_of
from pipelines.online.row_files import LABEL, SCORE, VERSION, HourRows
from pipelines.storage.raw_columns import raw_columns
from pipelines.storage.request_rows import run_starts
from recsys_attn.schema import Task
from serving.state.columns.missing import MISSING_INT, with_nulls

_UNKNOWN = -1  # a label


@dataclass(frozen=True)
class RowColumns:
    """The columns of served rows that a run's report reads.

    Attributes:
        tasks: The tasks of the model.
        features: The columns of its features.
        group: Column of the groups of GAUC, whose rows depend on each other.
        request: Column of the request id.
    """

    tasks: tuple[Task, ...]
    features: tuple[str, ...]
    group: str
    request: str

    @classmethod
    def of(cls, experiment: Experiment, columns: Sequence[str]) -> RowColumns:
        """The columns for a run.

        The groups are those of `evaluation.group`; where the rows have no such column, since it is
        neither a feature nor a key of the state, they are the requests.

        Args:
            experiment: The experiment of the run.
            columns: The names of all columns; the first is the id of the request.
        """
        named, request = experiment.evaluation.group, columns[0]
        read = raw_columns(experiment.model_schema).features
        features = tuple(column.name for column in read if column.name in columns)
        group = request if named is None or named not in columns else named
        return cls(experiment.tasks, features, group, request)

    @property
    def read(self) -> list[str]:
        """The columns of labels, masks, scores and groups."""
        labels = [name for task in self.tasks for name in (task.label_column, task.mask) if name]
        return [self.group, *labels, *(f"{SCORE}{task.name}" for task in self.tasks)]


class ServedRows:
    """Labels, scores and groups of rows, gathered hour by hour.

    Args:
        columns: The columns of the rows.
    """

    def __init__(self, columns: RowColumns) -> None:
        self._columns = columns
        self._labels: list[np.ndarray] = []
        self._scores: list[np.ndarray] = []
        self._groups: list[pa.Array] = []
        self._versions: list[np.ndarray] = []
        self._hours: list[np.ndarray] = []
        self.served_labels: dict[int, str] = {}  # the newest of each version

    def add(self, hour: HourRows) -> NDArray[np.int64]:
        """Adds the rows of a file, which are later than those before.

        Returns:
            The first row of each answer in the file: two versions may have answered one request.
        """
        table, tasks = hour.table, self._columns.tasks
        known = np.nan_to_num(labels_of(table, tasks), nan=_UNKNOWN)
        self._labels.append(known.astype(np.int8))
        self._scores.append(_columns_of(table, [f"{SCORE}{task.name}" for task in tasks]))
        column = with_nulls(table[self._columns.group]).combine_chunks()
        self._groups.append(column.dictionary_encode())
        starts = np.zeros(table.num_rows, bool)
        starts[run_starts(table[self._columns.request])] = True
        versions = table[VERSION].to_numpy()
        self._versions.append(versions)
        self._hours.append(np.full(table.num_rows, hour.hour))
        named = table[LABEL].to_pylist() if table[LABEL].null_count < table.num_rows else []
        for version in np.unique(versions) if named else ():
            of_version = [named[row] for row in np.flatnonzero(versions == version)]
            newest = next((label for label in reversed(of_version) if label), None)
            if newest is not None:
                self.served_labels[int(version)] = newest
        changed = np.diff(versions, prepend=versions[0]) != 0
        return np.flatnonzero(starts | changed)

    def __len__(self) -> int:
        return self.versions.size

    @cached_property
    def versions(self) -> NDArray[np.int64]:
        """The version that served each row."""
        return _joined(self._versions, np.int64)

    @cached_property
    def hours(self) -> NDArray[np.datetime64]:
        """The hour of each row's answer."""
        return _joined(self._hours, "datetime64[h]")

    @cached_property
    def groups(self) -> NDArray[np.int64]:
        """The number of each row's group, in the order of their first rows; or `MISSING_INT`."""
        if not self._groups:
            return np.zeros(0, np.int64)
        joined = pa.chunked_array(self._groups).unify_dictionaries()
        codes = [chunk.indices.cast(pa.int64()).fill_null(MISSING_INT) for chunk in joined.chunks]
        return np.concatenate([code.to_numpy(zero_copy_only=False) for code in codes])

    def labels(self, task: int, places: NDArray[np.int64]) -> NDArray[np.float32]:
        """The labels of a task, by its place, for some rows; NaN is unknown."""
        labels = self._all_labels[places, task]
        return np.where(labels == _UNKNOWN, np.nan, labels).astype(np.float32)

    def scores(self, task: int, places: NDArray[np.int64]) -> NDArray[np.float32]:
        """The scores of a task, by its place, for some rows."""
        return self._all_scores[places, task]

    @cached_property
    def _all_labels(self) -> NDArray[np.int8]:
        return _joined(self._labels, np.int8, len(self._columns.tasks))

    @cached_property
    def _all_scores(self) -> NDArray[np.float32]:
        return _joined(self._scores, np.float32, len(self._columns.tasks))


def _columns_of(table: pa.Table, names: Sequence[str]) -> np.ndarray:
    return np.stack([table[name].to_numpy() for name in names], axis=1)


def _joined(parts: list[np.ndarray], kind: Any, columns: int = 0) -> np.ndarray:
    return np.concatenate([np.zeros((0, columns) if columns else 0, kind), *parts])
