"""Batches of requests from a data split: what a model is fitted on and scored with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import tensorflow as tf

from pipelines.data import DataSplit, RowGroup, request_starts
from pipelines.errors import PipelineError
from pipelines.features import FittedFeatures
from recsys_attn.schema import CANDIDATE_MASK, Schema, Task

Arrays = dict[str, np.ndarray]
# Candidates of a batch with its padding: what bounds the memory of a step. A thousand requests
# padded to one that holds thousands of candidates would not fit.
PADDED_CANDIDATES = 65_536
TRAINING_CANDIDATES = 4 * PADDED_CANDIDATES


class Columns(NamedTuple):
    """Transformed rows: candidates' values by row, contexts' by request."""

    candidate: Arrays
    context: Arrays
    labels: Arrays  # float32, NaN where the label is not known
    starts: np.ndarray


class Batch(NamedTuple):
    """Inputs, labels and weights of some requests, candidates padded to the longest request."""

    inputs: Arrays
    labels: Arrays
    weights: Arrays

    @property
    def rows(self) -> int:
        return int(self.inputs[CANDIDATE_MASK].sum())


@dataclass
class RequestDataset:
    """Streams a split as batches of requests.

    Args:
        split: The Parquet files.
        fitted: Schema and transforms.
        request: Column of the request's id; None: every row is a request.
        batch_size: Requests in a batch; fewer where padded to the longest they would hold more
            than `candidates`.
        seed: Shuffles with it; None keeps the order of the files.
        shuffle_row_groups: Row groups whose requests are mixed with one another. Row groups are
            shuffled over the whole split, requests over this many row groups.
        candidates: Most candidates of a batch, padding included; a request that has more is a
            batch of its own. Training takes four times as many as scoring, so that only outliers
            make a step smaller than `batch_size`.
    """

    split: DataSplit
    fitted: FittedFeatures
    request: str | None
    batch_size: int
    seed: int | None = None
    shuffle_row_groups: int = 16
    candidates: int = PADDED_CANDIDATES
    epoch: int = 0  # which of the seed's orders is next
    rows_read: int = field(default=0, init=False)
    failure: Exception | None = field(default=None, init=False)

    @property
    def column_names(self) -> list[str]:
        """Columns that are read."""
        names = [f.name for f in self.fitted.schema.features]
        for task in self.fitted.schema.tasks:
            names += [task.label_column] + ([task.mask] if task.mask else [])
        return list(dict.fromkeys(names + ([self.request] if self.request else [])))

    def __iter__(self) -> Iterator[Batch]:
        groups = self.split.row_groups
        if self.seed is None:
            chunks, rng = [[group] for group in groups], None
        else:
            rng = np.random.default_rng([self.seed, self.epoch])
            order = [groups[i] for i in rng.permutation(len(groups))]
            size = self.shuffle_row_groups
            chunks = [order[i : i + size] for i in range(0, len(order), size)]
        for chunk in chunks:
            yield from self._chunk(chunk, rng)

    def _chunk(self, groups: list[RowGroup], rng: np.random.Generator | None) -> Iterator[Batch]:
        table = pa.concat_tables([group.read(self.column_names) for group in groups])
        columns = transform(table, self.fitted, self.request)
        requests = np.arange(len(columns.starts) - 1)
        if rng is not None:
            rng.shuffle(requests)
        for part in cut(columns.starts, requests, self.batch_size, self.candidates):
            yield assemble(columns, part)

    def tensorflow(self) -> tf.data.Dataset:
        """The same batches as a `tf.data.Dataset`, decoded in the background."""
        first = RequestDataset(self.split, self.fitted, self.request, batch_size=1)
        example = next(iter(first), None)
        if example is None:
            raise PipelineError(f"{self.split.folder} holds no rows.")
        signature = (
            input_specs(self.fitted.schema, example.inputs),
            {task: tf.TensorSpec([None, None], tf.float32) for task in example.labels},
            {task: tf.TensorSpec([None, None], tf.float32) for task in example.weights},
        )
        return tf.data.Dataset.from_generator(self._tuples, output_signature=signature).prefetch(4)

    def _tuples(self) -> Iterator[tuple[Arrays, Arrays, Arrays]]:
        self.rows_read = 0
        try:
            for batch in self:
                self.rows_read += batch.rows
                yield batch.inputs, batch.labels, batch.weights
        except Exception as error:  # TensorFlow would wrap it in a page of its own
            self.failure = error
            raise


def input_specs(schema: Schema, inputs: Arrays) -> dict[str, tf.TensorSpec]:
    """Types and shapes of a batch's inputs: B and T are free, lists have a fixed length."""
    specs = {}
    for name, array in inputs.items():
        is_context = name != CANDIDATE_MASK and schema[name].side == "context"
        shape = [None, *array.shape[1:]] if is_context else [None, None, *array.shape[2:]]
        specs[name] = tf.TensorSpec(shape, array.dtype)
    return specs


def transform(
    table: pa.Table, fitted: FittedFeatures, request: str | None, labelled: bool = True
) -> Columns:
    """Raw rows to model inputs; a request's context is transformed once."""
    if all(feature.side == "context" for feature in fitted.schema.features):
        request = None  # nothing tells a request's rows apart: the model scores each for itself
    starts = request_starts(table, request)
    first_rows = table if request is None else table.take(pa.array(starts[:-1]))
    return Columns(
        candidate=fitted.apply(table, "candidate"),
        context=fitted.apply(first_rows, "context"),
        labels=_labels(table, fitted.schema.tasks) if labelled else {},
        starts=starts,
    )


def _labels(table: pa.Table, tasks: tuple[Task, ...]) -> Arrays:
    labels = {}
    for task in tasks:
        values = table[task.label_column].combine_chunks().cast(pa.float32())
        label = values.fill_null(np.nan).to_numpy(zero_copy_only=False).copy()
        if task.mask is not None:
            mask = table[task.mask].combine_chunks().cast(pa.bool_()).fill_null(False)
            label[~mask.to_numpy(zero_copy_only=False)] = np.nan
        labels[task.name] = label
    return labels


def cut(
    starts: np.ndarray, requests: np.ndarray, most: int, candidates: int = PADDED_CANDIDATES
) -> Iterator[np.ndarray]:
    """Requests in their order as batches of at most `most`, and of `candidates` when padded."""
    lengths = np.diff(starts)[requests]
    begin = 0
    while begin < len(requests):
        longest = np.maximum.accumulate(lengths[begin : begin + most])
        padded = longest * np.arange(1, len(longest) + 1)
        end = begin + max(1, int(np.searchsorted(padded, candidates, side="right")))
        yield requests[begin:end]
        begin = end


def assemble(columns: Columns, requests: np.ndarray) -> Batch:
    """Some requests as one batch `(B, T, ...)`; `T` is the longest request's."""
    first = columns.starts[requests]
    lengths = columns.starts[requests + 1] - first
    position = np.arange(lengths.max())
    inside = position < lengths[:, None]
    rows = np.where(inside, first[:, None] + position, first[:, None])
    inputs = {name: values[rows] for name, values in columns.candidate.items()}
    inputs |= {name: values[requests] for name, values in columns.context.items()}
    inputs[CANDIDATE_MASK] = inside
    labels, weights = {}, {}
    for task, values in columns.labels.items():
        label = values[rows]
        known = inside & ~np.isnan(label)
        labels[task] = np.where(known, label, 0).astype("float32")
        weights[task] = known.astype("float32")
    return Batch(inputs, labels, weights)
