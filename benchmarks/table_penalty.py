"""The penalty of whole embedding tables with Adam: each step on all rows, or made up by row.

    python -m benchmarks.table_penalty

The loss is that of some lookups plus `L2 * ||table||^2`. The gradient of the penalty, `2 L2 row`,
enters both moments of every row at every step. So a form by rows must replay the steps that a row
has missed, before it is looked up next: each of them moves the row and both moments, and no closed
form gives the result of many. At the end all rows are brought up to the last step.

All optimizers take the same steps in turns. The table has the mean over all steps, with the replay
at the end, and the largest difference of the tables. Nothing is asserted about speed.
"""

from __future__ import annotations

import argparse
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from rich.console import Console
from rich.table import Table

from recsys_attn.backend.sparse_gradients import compiled_sums, rows_at, rows_of, with_penalty
from recsys_attn.optimizers import LazyAdam

L2, RATE, BETAS, EPSILON = 1e-3, 1e-3, (0.9, 0.999), 1e-7
WIDTH, EXPONENT = 16, 1.05
IDS = [tf.TensorSpec([None], "int32")]


class KerasAdam:
    """The penalty is part of the loss, and the gradient as large as the table."""

    def __init__(self, start: np.ndarray) -> None:
        self.table = keras.Variable(start, name="table_16")
        self.optimizer = keras.optimizers.Adam(RATE)
        self.optimizer.build([self.table])
        self.step = tf.function(self._step, IDS, autograph=False)

    def _step(self, ids: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            loss = loss_of(rows_at(self.table, ids))
        gradient = tape.gradient(loss, self.table.value)
        self.optimizer.apply([with_penalty(gradient, self.of_penalty())], [self.table])

    def of_penalty(self) -> tf.Tensor | None:
        """The gradient of the whole table's part of the loss."""
        return 2 * L2 * self.table.value

    def finish(self) -> None:
        """Nothing is left to do."""


class RowsOfTheBatch(KerasAdam):
    """`LazyAdam` with its own `l2`: another objective, of the rows that a batch looks up."""

    def __init__(self, start: np.ndarray) -> None:
        super().__init__(start)
        self.optimizer = LazyAdam(RATE, l2=L2)
        self.optimizer.build([self.table])

    def of_penalty(self) -> None:
        """None: the optimizer has it."""


class _OwnAdam(ABC):
    """A table and its moments."""

    def __init__(self, start: np.ndarray) -> None:
        self.table = tf.Variable(start)
        self.moments = [tf.Variable(tf.zeros_like(start)) for _ in range(2)]
        self.now = tf.Variable(0)
        self.step = tf.function(self._step, IDS, autograph=False)

    @abstractmethod
    def _step(self, ids: tf.Tensor) -> None:
        """Takes a step for the ids of a batch."""

    def _gradient(self, ids: tf.Tensor) -> tf.IndexedSlices:
        with tf.GradientTape() as tape:
            loss = loss_of(tf.gather(self.table, ids))
        return tape.gradient(loss, self.table)


class OnePass(_OwnAdam):
    """All rows in each step, by TensorFlow's kernel that reads and writes each array once."""

    def finish(self) -> None:
        """Nothing is left to do."""

    def _step(self, ids: tf.Tensor) -> None:
        slices = self._gradient(ids)
        whole = with_penalty(slices, 2 * L2 * self.table)
        step = tf.cast(self.now.assign_add(1), "float32")
        tf.raw_ops.ResourceApplyAdam(
            var=self.table.handle,
            m=self.moments[0].handle,
            v=self.moments[1].handle,
            beta1_power=BETAS[0] ** step,
            beta2_power=BETAS[1] ** step,
            lr=RATE,
            beta1=BETAS[0],
            beta2=BETAS[1],
            epsilon=EPSILON,
            grad=whole,
        )


class ByRows(_OwnAdam):
    """The rows that a batch looks up; the steps that they missed are replayed before the lookup.

    Rows are sorted by their last step and replayed in chunks, so that those of a chunk have missed
    about as many.

    Args:
        start: The initial table.
        compiled: Compile the replay of a chunk with XLA.
        chunk: Rows of a chunk; with XLA few enough to stay in a processor's cache.
    """

    def __init__(self, start: np.ndarray, compiled: bool, chunk: int) -> None:
        super().__init__(start)
        self.last = tf.Variable(tf.zeros(len(start), "int32"))
        self.chunk = chunk
        self.replay = tf.function(_replay, autograph=False, jit_compile=compiled)
        self.catch_up = tf.function(self._catch_up, IDS, autograph=False)

    def _step(self, ids: tf.Tensor) -> None:
        unique, _ = tf.unique(ids)
        with tf.control_dependencies([self._catch_up(unique)]):
            rows: Any = rows_of(self._gradient(ids))
        state = [tf.gather(v, rows.ids) for v in (self.table, *self.moments)]
        new = _adam(rows.values, self.now.assign_add(1), *state)
        self._write(rows.ids, [*new, tf.fill(tf.shape(rows.ids), self.now.value())])

    def finish(self) -> None:
        """Brings all rows up to the last step."""
        for ids in np.array_split(np.arange(self.last.shape[0], dtype="int32"), 16):
            self.catch_up(ids)

    def _catch_up(self, ids: tf.Tensor) -> tf.Tensor:
        now, last = self.now.value(), tf.gather(self.last, ids)
        behind = tf.argsort(last)[: tf.math.count_nonzero(last < now, dtype="int32")]
        ids, last = tf.gather(ids, behind), tf.gather(last, behind)
        count = tf.size(ids)
        padding = [[0, -count % self.chunk]]
        ids, last = tf.pad(ids, padding), tf.pad(last, padding, constant_values=now)

        def one(begin: tf.Tensor) -> tf.Tensor:
            mine = tf.ensure_shape(ids[begin : begin + self.chunk], [self.chunk])
            since = tf.ensure_shape(last[begin : begin + self.chunk], [self.chunk])
            state = [tf.gather(v, mine) for v in (self.table, *self.moments)]
            new = [*self.replay(now, since, *state), tf.fill([self.chunk], now)]
            rows = tf.minimum(self.chunk, count - begin)
            with tf.control_dependencies(self._write(mine[:rows], [n[:rows] for n in new])):
                return begin + self.chunk

        return tf.while_loop(lambda begin: begin < count, one, [0], parallel_iterations=1)[0]

    def _write(self, ids: tf.Tensor, values: list[tf.Tensor]) -> list[Any]:
        variables = (self.table, *self.moments, self.last)
        return [
            variable.scatter_update(tf.IndexedSlices(value, ids))
            for variable, value in zip(variables, values, strict=True)
        ]


def _replay(
    now: tf.Tensor, last: tf.Tensor, row: tf.Tensor, m: tf.Tensor, v: tf.Tensor
) -> tuple[tf.Tensor, ...]:
    """Returns rows and moments after the steps from `last + 1` to `now`, without a lookup."""

    def one(step: tf.Tensor, *old: tf.Tensor) -> tuple[tf.Tensor, ...]:
        missed = (last < step)[:, None]
        new = _adam(tf.zeros_like(row), step, *old)
        return (step + 1, *(tf.where(missed, n, o) for n, o in zip(new, old, strict=True)))

    first = tf.reduce_min(last) + 1
    _, *state = tf.while_loop(
        lambda step, *_: step <= now, one, (first, row, m, v), parallel_iterations=1
    )
    return tuple(state)


def _adam(
    gradient: tf.Tensor, step: tf.Tensor, row: tf.Tensor, m: tf.Tensor, v: tf.Tensor
) -> tuple[tf.Tensor, ...]:
    """A step of Adam with the gradient of the penalty."""
    gradient = gradient + 2 * L2 * row
    step = tf.cast(step, "float32")
    rate = RATE * tf.sqrt(1 - BETAS[1] ** step) / (1 - BETAS[0] ** step)
    m = m + (gradient - m) * (1 - BETAS[0])
    v = v + (tf.square(gradient) - v) * (1 - BETAS[1])
    return row - m * rate / (tf.sqrt(v) + EPSILON), m, v


def loss_of(rows: tf.Tensor) -> tf.Tensor:
    """A loss of the rows looked up."""
    return tf.reduce_sum(tf.square(rows - 1.0))


def batches(vocabulary: int, lookups: int, steps: int) -> Iterator[tf.Tensor]:
    """Ids for each step: rank r with a probability of about `r ** -EXPONENT`."""
    rng = np.random.default_rng(0)
    places = rng.permutation(vocabulary).astype("int32")
    power = 1 - EXPONENT
    for _ in range(steps):
        uniform = rng.random(lookups)
        rank = ((((vocabulary + 1.0) ** power - 1) * uniform + 1) ** (1 / power)).astype("int64")
        yield tf.constant(places[np.minimum(rank, vocabulary) - 1])


def contenders(vocabulary: int) -> dict[str, Any]:
    """The optimizers, each with a table of its own."""
    start = np.random.default_rng(1).normal(0, 0.01, (vocabulary, WIDTH)).astype("float32")
    return {
        "all rows: Keras' Adam": KerasAdam(start),
        "all rows: Adam in one pass": OnePass(start),
        "missed steps made up: TensorFlow": ByRows(start, compiled=False, chunk=8192),
        "missed steps made up: XLA": ByRows(start, compiled=True, chunk=1024),
        "rows of the batch alone: LazyAdam": RowsOfTheBatch(start),
    }


def measured(optimizers: dict[str, Any], ids: list[tf.Tensor]) -> dict[str, tuple[float, float]]:
    """Mean milliseconds of a step, and of the work after the last one divided by the steps."""
    seconds = dict.fromkeys(optimizers, 0.0)
    for number, batch in enumerate(ids):
        for name, optimizer in optimizers.items():
            begin = time.perf_counter()
            optimizer.step(batch)
            if number:  # the first one traces
                seconds[name] += time.perf_counter() - begin
    times = {}
    for name, optimizer in optimizers.items():
        begin = time.perf_counter()
        optimizer.finish()
        finish = time.perf_counter() - begin
        times[name] = 1000 * seconds[name] / (len(ids) - 1), 1000 * finish / len(ids)
    return times


def main() -> None:
    """Prints a table for each vocabulary."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--vocabulary", default="10000,1000000", help="sizes, with commas")
    parser.add_argument("--lookups", type=int, default=160_000, help="of a step")
    parser.add_argument("--steps", type=int, default=64, help="before all rows are needed")
    options = parser.parse_args()
    for vocabulary in map(int, options.vocabulary.split(",")):
        ids = list(batches(vocabulary, options.lookups, options.steps))
        optimizers = contenders(vocabulary)
        with compiled_sums():  # as in a training step
            times = measured(optimizers, ids)
        touched = np.mean([len(np.unique(batch)) for batch in ids])
        table = Table(
            title=f"{vocabulary:,} rows of width {WIDTH}, {touched:,.0f} looked up in a step, "
            f"{options.steps} steps",
            box=None,
            title_justify="left",
        )
        for column in ("", "ms a step", "ms with the replay at the end", "largest difference"):
            table.add_column(column, justify="right" if column else "left")
        reference = keras.ops.convert_to_numpy(optimizers["all rows: Keras' Adam"].table)
        for name, (step, finish) in times.items():
            away = np.abs(keras.ops.convert_to_numpy(optimizers[name].table) - reference).max()
            table.add_row(name, f"{step:.1f}", f"{step + finish:.1f}", f"{away:.1e}")
        Console(width=110).print(table)


if __name__ == "__main__":
    main()
