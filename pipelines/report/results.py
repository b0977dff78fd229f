"""Reads an evaluation folder: metrics.json and predictions.parquet."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipelines.common.artifacts import METRICS, PREDICTIONS, read_json
from pipelines.common.errors import PipelineError
from pipelines.metrics.intervals import separated
from pipelines.metrics.metric_inputs import check_pairs, check_probabilities, group_codes


@dataclass(frozen=True)
class TaskRows:
    """The labelled rows of one task, each array of shape (rows,)."""

    labels: NDArray[np.float64]
    scores: NDArray[np.float64]
    ceiling: NDArray[np.float64] | None
    baselines: dict[str, NDArray[np.float64]]


@dataclass(frozen=True)
class Evaluation:
    """The metrics and the predictions of one evaluation folder."""

    metrics: dict[str, Any]
    predictions: Path

    @classmethod
    def read(cls, folder: Path) -> "Evaluation":
        """Reads the metrics and checks that the predictions exist.

        Raises:
            PipelineError: A file is missing or damaged.
        """
        predictions, source = folder / PREDICTIONS, folder / METRICS
        _require_file(source)
        metrics = read_json(source, "Run `recsys-attn evaluate` again.")
        if "tasks" not in metrics:
            raise PipelineError(
                f"A sequence model has no predictions of rows: its metrics are in {source} alone. "
                "Compare them there; `recsys-attn compare` and `report` take ranking models."
            )
        _require_file(predictions)
        return cls(metrics, predictions)

    def value(self, task: str, metric: str) -> float:
        """A metric of all rows of a task.

        Raises:
            PipelineError: The rows do not define the metric.
        """
        metrics = self.metrics["tasks"][task]
        value = {**metrics.get("own", {}), **metrics.get("at_k", {}), **metrics}.get(metric)
        if not isinstance(value, float):
            raise PipelineError(
                f"The rows of {self.predictions.parent} give no `{metric}` of task {task!r}: it "
                "needs positives and negatives, or requests that have both."
            )
        return value

    def task_rows(self, task: str) -> TaskRows:
        """The rows of the predictions that have a label for `task`.

        Raises:
            PipelineError: The predictions cannot be read, or belong to other metrics.
        """
        metrics = self.metrics["tasks"][task]
        label, score, ceiling = (f"{task}/{part}" for part in ("label", "score", "ceiling"))
        baselines = {name: f"baseline/{name}" for name in metrics["baselines"]}
        columns = self._columns((label, score), (ceiling, *baselines.values()))
        labelled = ~np.isnan(columns[label])
        if labelled.sum() != metrics["rows"]:
            raise PipelineError(
                f"{METRICS} counts {metrics['rows']} labelled rows of task {task!r} and "
                f"{self.predictions} holds {labelled.sum()}; run `recsys-attn evaluate` again."
            )
        columns = {name: column[labelled] for name, column in columns.items()}
        self._check(task, columns[label], columns[score])
        return TaskRows(
            labels=columns[label],
            scores=columns[score],
            ceiling=columns.get(ceiling),
            baselines={n: columns[column] for n, column in baselines.items() if column in columns},
        )

    def _check(self, task: str, labels: NDArray[np.float64], scores: NDArray[np.float64]) -> None:
        """Checks labels and scores before anything is computed from them."""
        metrics = self.metrics["tasks"][task]
        try:
            if metrics["logloss"] is None:
                check_pairs(labels, scores)
            else:
                check_probabilities(labels, scores)
        except ValueError as error:
            raise PipelineError(
                f"{self.predictions}, task {task!r}: {error}. Run `recsys-attn evaluate` again."
            ) from None
        if labels.sum() != metrics["positives"]:
            raise PipelineError(
                f"{METRICS} counts {metrics['positives']:,} positives of task {task!r} and "
                f"{self.predictions} holds {labels.sum():,.0f}; run `recsys-attn evaluate` again."
            )

    def labels(self, task: str) -> NDArray[np.float64]:
        """The label of each row of the predictions, nan where it is unknown."""
        name = f"{task}/label"
        return self._columns((name,), ())[name]

    @property
    def columns(self) -> list[str]:
        """The names of the columns of the predictions."""
        try:
            return pq.read_schema(self.predictions).names
        except pa.ArrowException as error:
            raise self._unreadable(error) from error

    def group_codes(self, task: str) -> NDArray[np.intp]:
        """The number of the group (that of GAUC, else the request) of each row of `task_rows`.

        Rows without a group have -1.
        """
        name = "group" if "group" in self.columns else "request"
        labels, table = self._labelled(task, [name])
        return group_codes(table[name].combine_chunks(), labels)

    def clusters(self, task: str) -> NDArray[np.intp]:
        """`group_codes`, with a number of its own for each row without a group."""
        return separated(self.group_codes(task))

    def segment_rows(self, task: str) -> dict[str, NDArray[np.bool_]]:
        """The mask of `task_rows` for each segment, by the segment's name."""
        names = [name for name in self.columns if name.startswith("segment/")]
        _, table = self._labelled(task, names)
        by_name = {}
        for name in names:
            column = table[name].combine_chunks().dictionary_encode()
            codes = column.indices.to_numpy()
            for code, segment in enumerate(column.dictionary.to_pylist()):
                by_name[segment] = codes == code
        return by_name

    def places(self, task: str, rows: NDArray[np.intp]) -> list[dict[str, Any]]:
        """The line of the predictions, the request and the group of some of `task_rows`."""
        present = ["request", *(name for name in ("group",) if name in self.columns)]
        _, table = self._labelled(task, present)
        return table.take(pa.array(rows)).to_pylist()

    def _labelled(self, task: str, names: Sequence[str]) -> tuple[NDArray[np.float64], pa.Table]:
        """Labels of the rows that have one, and other columns of these rows beside `row`."""
        label = f"{task}/label"
        self._require((label, *names))
        try:
            table = pq.read_table(self.predictions, columns=[label, *names])
        except pa.ArrowException as error:
            raise self._unreadable(error) from error
        labels = table[label].cast(pa.float64()).to_numpy()
        known = np.flatnonzero(~np.isnan(labels))
        table = (
            table.select(names)
            .unify_dictionaries()
            .append_column("row", pa.array(np.arange(labels.size)))
        )
        return labels[known], table.take(pa.array(known))

    def _require(self, names: Sequence[str]) -> None:
        missing = [name for name in names if name not in self.columns]
        if missing:
            raise PipelineError(
                f"{self.predictions} has no column {missing[0]!r}; run `recsys-attn evaluate` "
                "again."
            )

    def _unreadable(self, error: Exception) -> PipelineError:
        return PipelineError(f"{self.predictions} cannot be read: {error}")

    def _columns(
        self, required: tuple[str, ...], optional: tuple[str, ...]
    ) -> dict[str, NDArray[np.float64]]:
        """Columns of the predictions by name; nan is missing."""
        try:
            self._require(required)
            names = [name for name in (*required, *optional) if name in self.columns]
            table = pq.read_table(self.predictions, columns=names)
            return {name: table[name].cast(pa.float64()).to_numpy() for name in names}
        except pa.ArrowException as error:
            raise self._unreadable(error) from error


def _require_file(path: Path) -> None:
    if not path.is_file():
        raise PipelineError(f"There is no {path}; run `recsys-attn evaluate` first.")
