"""Scores of drawn items and their gradients, by the way that they are computed.

    python -m benchmarks.drawn_scores
    KERAS_BACKEND=jax python -m benchmarks.drawn_scores

`scores_at` multiplies all items and reads the scores, or collects the row of each draw. The table
has medians of both, in turns, by the number of items for each draw (`MOST_ROWS_PER_DRAW`). Nothing
is asserted about speed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import keras
import numpy as np
from keras import ops
from rich.console import Console
from rich.table import Table

from recsys_attn.objectives import chunked_scores

POSITIONS, WIDTH, ROUNDS = 21_000, 64, 5
SHAPES = [(items, draws) for draws in (16, 128) for items in (8 * draws, 32 * draws, 64 * draws)]
WAYS = {"all items": 10**9, "collected": 0}  # greatest number of items for each draw


def compiled(places: Any, factors: Any, items: int, most: int) -> Callable[[Any, Any], Any]:
    """The gradients by states and items, in one of the ways."""
    chunked_scores.MOST_ROWS_PER_DRAW = most

    def total(states: Any, rows: Any) -> Any:
        return ops.sum(factors * chunked_scores.scores_at(states, rows, places, items))

    if keras.backend.backend() == "jax":
        import jax

        return partial(_ready, jax.jit(jax.grad(total, argnums=(0, 1))))
    import tensorflow as tf

    def gradients(states: Any, rows: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([states, rows])
            loss = total(states, rows)
        return tape.gradient(loss, [states, rows])

    return tf.function(gradients, autograph=False)


def _ready(step: Callable[[Any, Any], Any], *inputs: Any) -> Any:
    import jax

    return jax.block_until_ready(step(*inputs))


def main() -> None:
    """Prints the table."""
    table = Table("items", "draws", "items a draw", *(f"{way}, ms" for way in WAYS), "ratio")
    for items, draws in SHAPES:
        rng = np.random.default_rng(0)
        states, rows, factors = (
            ops.convert_to_tensor(rng.normal(size=shape).astype("float32"))
            for shape in ((POSITIONS, WIDTH), (items, WIDTH), (POSITIONS, draws))
        )
        places = ops.convert_to_tensor(rng.integers(0, items, (POSITIONS, draws)).astype("int32"))
        steps = []
        for most in WAYS.values():
            steps.append(compiled(places, factors, items, most))
            steps[-1](states, rows)  # traced while the way is set
        times: list[list[float]] = [[] for _ in steps]
        for _ in range(ROUNDS):
            for step, taken in zip(steps, times, strict=True):
                begin = time.perf_counter()
                step(states, rows)
                taken.append(time.perf_counter() - begin)
        whole, collected = (1e3 * float(np.median(taken)) for taken in times)
        cells = (f"{whole:.0f}", f"{collected:.0f}", f"{collected / whole:.1f}")
        table.add_row(f"{items:,}", str(draws), str(items // draws), *cells)
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
