"""The training path's scores: fitted transforms outside the graph, then the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import tensorflow as tf

from pipelines.dataset import Batch, RequestDataset, assemble, cut, input_specs, transform
from pipelines.features import FittedFeatures
from recsys_attn.models import RankingModel
from recsys_attn.schema import CANDIDATE_MASK

Scores = dict[str, np.ndarray]
REQUESTS_AT_ONCE = 4096


class Scorer:
    """Probabilities of every real candidate, in the order of the dataset's rows."""

    def __init__(self, model: RankingModel) -> None:
        self._model = model
        self._compiled: Callable[..., Any] | None = None

    def score(self, batch: Batch) -> Scores:
        """One value per real candidate of a batch, by task."""
        if self._compiled is None:
            specs = input_specs(self._model.schema, batch.inputs)
            self._compiled = tf.function(self._model.probabilities, input_signature=[specs])
        inputs = {name: tf.constant(array) for name, array in batch.inputs.items()}
        mask = batch.inputs[CANDIDATE_MASK]
        return {task: score.numpy()[mask] for task, score in self._compiled(inputs).items()}

    def score_labelled(
        self, dataset: RequestDataset, progress: Callable[[int], None] | None = None
    ) -> tuple[Scores, Scores]:
        """Labels (NaN where not known) and scores by task, over a whole dataset."""
        labels, scores = [], []
        for batch in dataset:
            mask = batch.inputs[CANDIDATE_MASK]
            labels.append(
                {
                    task: np.where(batch.weights[task] > 0, label, np.nan)[mask].astype("float32")
                    for task, label in batch.labels.items()
                }
            )
            scores.append(self.score(batch))
            if progress is not None:
                progress(batch.rows)
        return _concatenate(labels), _concatenate(scores)

    def score_table(self, table: pa.Table, fitted: FittedFeatures, request: str | None) -> Scores:
        """Scores of a table's rows, which need no labels."""
        columns = transform(table, fitted, request, labelled=False)
        every = np.arange(len(columns.starts) - 1)
        parts = cut(columns.starts, every, REQUESTS_AT_ONCE)
        return _concatenate([self.score(assemble(columns, part)) for part in parts])


def _concatenate(parts: list[Scores]) -> Scores:
    return {task: np.concatenate([part[task] for part in parts]) for task in parts[0]}
