"""Reads an evaluation folder: metrics.json and predictions.parquet."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipelines.common.artifacts import METRICS, PREDICTIONS, read_json
from pipelines.common.errors import PipelineError
from pipelines.metrics.intervals import cluster_codes


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
        for path in (source, predictions):
            if not path.is_file():
                raise PipelineError(f"There is no {path}; run `recsys-attn evaluate` first.")
        return cls(read_json(source, "Run `recsys-attn evaluate` again."), predictions)

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
        return TaskRows(
            labels=columns[label],
            scores=columns[score],
            ceiling=columns.get(ceiling),
            baselines={n: columns[column] for n, column in baselines.items() if column in columns},
        )

    def clusters(self, task: str) -> NDArray[np.intp]:
        """The number of the group (that of GAUC, else the request) of each row of `task_rows`."""
        label = f"{task}/label"
        try:
            present = pq.read_schema(self.predictions).names
            name = "group" if "group" in present else "request"
            table = pq.read_table(self.predictions, columns=[name, label])
        except pa.ArrowException as error:
            raise PipelineError(f"{self.predictions} cannot be read: {error}") from error
        labels = table[label].cast(pa.float64()).to_numpy()
        return cluster_codes(table[name].combine_chunks(), labels)[~np.isnan(labels)]

    def _columns(
        self, required: tuple[str, ...], optional: tuple[str, ...]
    ) -> dict[str, NDArray[np.float64]]:
        """Columns of the predictions by name; nan is missing."""
        try:
            present = pq.read_schema(self.predictions).names
            missing = [name for name in required if name not in present]
            if missing:
                raise PipelineError(f"{self.predictions} has no column {missing[0]!r}.")
            names = [name for name in (*required, *optional) if name in present]
            table = pq.read_table(self.predictions, columns=names)
            return {name: table[name].cast(pa.float64()).to_numpy() for name in names}
        except pa.ArrowException as error:
            raise PipelineError(f"{self.predictions} cannot be read: {error}") from error
