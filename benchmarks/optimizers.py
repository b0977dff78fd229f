"""One training step of an embedding table: its cost by optimizer and vocabulary.

    make bench

A step looks 160 k ids up, takes the gradient of a sum and updates the table. The ids follow a
power law, as those of a log do, and lie anywhere in the table. All optimizers of a column run in
one process, in turns; the table has the median of the rounds. Nothing is asserted about speed.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf
from keras import ops
from rich.console import Console
from rich.table import Table

from recsys_attn.backend.sparse_gradients import compiled_sums, rows_at
from recsys_attn.optimizers import LazyAdagrad, LazyAdam, RowWiseAdagrad

VOCABULARIES = (10_000, 1_000_000, 10_000_000)
WIDTH = 16
LOOKUPS = 160_000
EXPONENT = 1.05
ROUNDS, WARM_UP = 9, 2

Step = Callable[[tf.Tensor], object]
OPTIMIZERS: dict[str, tuple[Callable[[float], keras.optimizers.Optimizer], bool]] = {
    "keras Adam": (keras.optimizers.Adam, False),
    "LazyAdam": (LazyAdam, False),
    "LazyAdagrad": (LazyAdagrad, False),
    "RowWiseAdagrad": (RowWiseAdagrad, False),
    "LazyAdam, step in XLA": (LazyAdam, True),
}


def batches(vocabulary: int, rng: np.random.Generator) -> list[tf.Tensor]:
    """Ids for each round: rank r with a probability of about `r ** -EXPONENT`."""
    places = rng.permutation(vocabulary).astype("int32")
    power = 1 - EXPONENT
    drawn = []
    for _ in range(ROUNDS + WARM_UP):
        uniform = rng.random(LOOKUPS)
        rank = ((((vocabulary + 1.0) ** power - 1) * uniform + 1) ** (1 / power)).astype("int64")
        drawn.append(tf.constant(places[np.minimum(rank, vocabulary) - 1]))
    return drawn


def step(optimizer: keras.optimizers.Optimizer, vocabulary: int, compiled: bool) -> Step:
    """Lookup, gradient and update of a table of its own."""
    table = keras.Variable(np.zeros((vocabulary, WIDTH), "float32"), name="table_16")
    optimizer.build([table])

    @tf.function(jit_compile=compiled, autograph=False)
    def run(ids: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            loss = ops.sum(ops.square(rows_at(table, ids) - 1.0))
        optimizer.apply(tape.gradient(loss, [table.value]), [table])

    return run


def medians(steps: list[Step], ids: list[tf.Tensor]) -> list[float]:
    """Milliseconds of each, measured in turns after a warm-up."""
    times = np.empty((len(ids), len(steps)))
    for round_, batch in enumerate(ids):
        for index, run in enumerate(steps):
            begin = time.perf_counter()
            run(batch)
            times[round_, index] = 1000 * (time.perf_counter() - begin)
    return np.median(times[WARM_UP:], axis=0).tolist()


def bytes_per_row(make: Callable[[float], keras.optimizers.Optimizer]) -> float:
    """Returns the optimizer's state of a row."""
    optimizer, rows = make(0.01), 1000
    optimizer.build([keras.Variable(np.zeros((rows, WIDTH), "float32"), name="table_16")])
    return sum(4 * np.prod(v.shape) for v in optimizer.variables if len(v.shape)) / rows


def main() -> None:
    """Prints the table."""
    rng = np.random.default_rng(0)
    columns, unique = [], []
    for vocabulary in VOCABULARIES:
        ids = batches(vocabulary, rng)
        unique.append(np.mean([len(np.unique(batch)) for batch in ids]))
        steps = [step(make(0.01), vocabulary, jit) for make, jit in OPTIMIZERS.values()]
        with compiled_sums():  # as in a training step
            columns.append(medians(steps, ids))
    table = Table(
        title=f"{LOOKUPS // 1000} k lookups of width {WIDTH}: median ms a step "
        "(times slower than LazyAdam)",
        box=None,
        title_justify="left",
    )
    table.add_column("rows of the table")
    table.add_column("slots, bytes a row", justify="right")
    for vocabulary, ids_once in zip(VOCABULARIES, unique, strict=True):
        table.add_column(f"{vocabulary:,}\n{ids_once:,.0f} touched", justify="right")
    for index, (name, (make, _)) in enumerate(OPTIMIZERS.items()):
        cells = [f"{column[index]:.1f} ({column[index] / column[1]:.2f})" for column in columns]
        table.add_row(name, f"{bytes_per_row(make):.0f}", *cells)
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
