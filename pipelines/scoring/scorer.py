"""Scores of the training path: transforms in Arrow and NumPy, then the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import tensorflow as tf

from pipelines.features import FittedFeatures
from pipelines.feed import Batch, Feed
from pipelines.feed.batch import BatchSize, assemble
from pipelines.feed.batch_layout import LABELS, Layout
from pipelines.feed.chunk import transform
from pipelines.feed.tensors import block_specs, block_tensors
from pipelines.scoring.microbatches import (
    MicroBatchResult,
    micro_batch_requests,
    micro_batch_rows,
    over_micro_batches,
)
from recsys_attn.models import RankingModel
from recsys_attn.schema import CANDIDATE_MASK

Scores = dict[str, np.ndarray]
AT_ONCE = BatchSize(4096)


class Scorer:
    """Probabilities of all candidates, in the order of the rows.

    Args:
        model: The model.
        within: Makes the context of each call of the model, such as `watch_heads`, in the function
            that is traced.
    """

    def __init__(
        self,
        model: RankingModel,
        within: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ) -> None:
        self._model, self._within = model, within
        self._compiled: Callable[..., Any] | None = None

    def score(self, batch: Batch) -> Scores:
        """One value per candidate of a batch, by task; padding is left out."""
        layout, blocks = batch.layout, dict(batch.blocks)
        blocks.pop(LABELS, None)
        if self._compiled is None:
            specs = block_specs(layout)
            self._compiled = tf.function(
                partial(self._traced, layout),
                input_signature=[{name: specs[name] for name in blocks}],
                autograph=False,
            )
        scores = self._compiled(block_tensors(blocks))
        mask = blocks[CANDIDATE_MASK]
        return {task: score.numpy()[mask] for task, score in scores.items()}

    def _traced(self, layout: Layout, blocks: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        with self._within():
            return self._probabilities(layout, blocks)

    def _probabilities(self, layout: Layout, blocks: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        rows = micro_batch_rows(None, self._model.tower)
        if rows is None:
            return self._model.probabilities(layout.inputs(blocks))
        tasks = [task.name for task in self._model.schema.tasks]

        def part(_: tf.Tensor, blocks: dict[str, tf.Tensor]) -> MicroBatchResult:
            scores = self._model.probabilities(layout.inputs(blocks))
            return MicroBatchResult([], [], [scores[task] for task in tasks])

        size = micro_batch_requests(blocks[CANDIDATE_MASK], rows)
        zero = MicroBatchResult([], [], [tf.TensorSpec((None, None), tf.float32) for _ in tasks])
        return dict(zip(tasks, over_micro_batches(part, blocks, size, zero).pieces, strict=True))

    def labelled(self, dataset: Feed) -> Iterator[tuple[Scores, Scores, np.ndarray]]:
        """Labels (NaN is unknown) and scores by task, and each row's request in its batch."""
        for batch in dataset:
            mask = batch.blocks[CANDIDATE_MASK]
            labels = batch.layout.labels(batch.blocks).items()
            known = {task: label[mask] for task, label in labels}
            yield known, self.score(batch), np.nonzero(mask)[0]

    def score_labelled(
        self, dataset: Feed, progress: Callable[[int], None] | None = None
    ) -> tuple[Scores, Scores]:
        """Labels and scores by task of a whole dataset."""
        labels, scores = [], []
        for label, score, _ in self.labelled(dataset):
            labels.append(label)
            scores.append(score)
            if progress is not None:
                progress(len(next(iter(label.values()))))
        return concatenated(labels), concatenated(scores)

    def score_table(self, table: pa.Table, fitted: FittedFeatures, request: str | None) -> Scores:
        """Scores of a table's rows; it needs no labels."""
        chunk = transform(table, fitted, request, labelled=False)
        lengths = np.diff(chunk.starts)
        pieces = ((chunk, np.arange(*bounds)) for bounds in AT_ONCE.cut(lengths))
        batches = (Batch(assemble([piece], AT_ONCE), chunk.layout) for piece in pieces)
        return concatenated([self.score(batch) for batch in batches])


def concatenated(parts: Sequence[Scores]) -> Scores:
    """The scores of consecutive rows together."""
    return {task: np.concatenate([part[task] for part in parts]) for task in parts[0]}
