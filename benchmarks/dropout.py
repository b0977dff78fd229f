"""Dropout and its gradient in a graph of TensorFlow, beside Keras' own.

    python -m benchmarks.dropout

The table has medians of both, in turns, at the shapes of a step of SASRec and of a wide MLP.
Nothing is asserted about speed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from rich.console import Console
from rich.table import Table

from recsys_attn.backend.dropout import Dropout

ROUNDS = 40
SHAPES = {
    "attention, 32 histories of 200": (32, 1, 200, 200),
    "attention, 32 histories of 64": (32, 1, 64, 64),
    "events, 32 histories of 200": (32, 200, 64),
    "MLP, 4,096 rows": (4096, 400),
    "MLP, 256 rows": (256, 64),
}


def compiled(layer: keras.layers.Dropout) -> Callable[[Any], Any]:
    """The gradient of the layer's output in training."""
    import tensorflow as tf

    def gradient(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            total = tf.reduce_sum(layer(x, training=True))
        return tape.gradient(total, x)

    return tf.function(gradient, autograph=False)


def main() -> None:
    """Prints the table."""
    table = Table("", "million entries", "Keras, ms", "ours, ms", "times as fast", box=None)
    for name, shape in SHAPES.items():
        x = keras.random.normal(shape)
        steps = [compiled(keras.layers.Dropout(0.1)), compiled(Dropout(0.1))]
        times: list[list[float]] = [[] for _ in steps]
        for turn in range(ROUNDS + 3):  # the first ones trace and compile
            for step, taken in zip(steps, times, strict=True):
                begin = time.perf_counter()
                step(x)
                if turn >= 3:
                    taken.append(time.perf_counter() - begin)
        keras_own, ours = (1e3 * float(np.median(taken)) for taken in times)
        count = f"{np.prod(shape) / 1e6:.2f}"
        table.add_row(name, count, f"{keras_own:.2f}", f"{ours:.2f}", f"{keras_own / ours:.1f}")
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
