"""Our layers beside the same mathematics from Keras' own: milliseconds a training step.

    make bench

Each pair runs in one process, in turns, forward and backward, in a compiled graph; the table has
the median of the rounds and their ratio. Nothing is asserted about speed.
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

from recsys_attn.interactions import AutoInt, TargetAttention
from recsys_attn.multitask import MMoE

ROUNDS = 15
Step = Callable[[], object]


def step(layer: keras.layers.Layer, *inputs: tf.Tensor) -> Step:
    """A compiled forward and backward pass of a layer on fixed inputs."""
    layer(*inputs)

    @tf.function
    def run() -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            loss = ops.sum(ops.square(layer(*inputs)))
        return tape.gradient(loss, [*layer.trainable_variables, *inputs])

    return run


def medians(first: Step, second: Step) -> tuple[float, float]:
    """Milliseconds of both, measured in turns after a warm-up."""
    times: tuple[list[float], list[float]] = ([], [])
    for round_ in range(ROUNDS + 3):
        for run, of_step in zip((first, second), times, strict=True):
            begin = time.perf_counter()
            run()
            if round_ >= 3:
                of_step.append(1000 * (time.perf_counter() - begin))
    return float(np.median(times[0])), float(np.median(times[1]))


class KerasAutoInt(keras.layers.Layer):
    """The interacting layers with `keras.layers.MultiHeadAttention`."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = [keras.layers.MultiHeadAttention(2, 32, output_shape=64) for _ in "ab"]
        self.residual = [keras.layers.Dense(64, use_bias=False) for _ in "ab"]

    def build(self, shape: tuple[int, ...]) -> None:
        self.built = True

    def call(self, x: tf.Tensor) -> tf.Tensor:
        for attention, residual in zip(self.attention, self.residual, strict=True):
            x = ops.relu(attention(x, x) + residual(x))
        return x


class ConcatenatedTargetAttention(keras.layers.Layer):
    """DIN's activation unit on the concatenation `[q, k, q - k, q * k]`."""

    def __init__(self) -> None:
        super().__init__()
        self.network = [keras.layers.Dense(size, activation="relu") for size in (80, 40)]
        self.logit = keras.layers.Dense(1)

    def build(self, *shapes: tuple[int, ...]) -> None:
        self.built = True

    def call(self, query: tf.Tensor, history: tf.Tensor) -> tf.Tensor:
        q, k = query[:, :, None] + 0 * history[:, None], history[:, None] + 0 * query[:, :, None]
        x = ops.concatenate([q, k, q - k, q * k], axis=-1)
        for dense in self.network:
            x = dense(x)
        return ops.matmul(self.logit(x)[..., 0], history)


class SeparateExperts(keras.layers.Layer):
    """MMoE with a `Dense` for each layer of each expert."""

    def __init__(self, tasks: int, experts: int, units: tuple[int, ...]) -> None:
        super().__init__()
        self.experts = [
            keras.Sequential([keras.layers.Dense(size, activation="relu") for size in units])
            for _ in range(experts)
        ]
        self.gates = [
            keras.layers.Dense(experts, use_bias=False, activation="softmax") for _ in range(tasks)
        ]

    def build(self, shape: tuple[int, ...]) -> None:
        self.built = True

    def call(self, x: tf.Tensor) -> tf.Tensor:
        experts = ops.stack([expert(x) for expert in self.experts], axis=-2)
        gates = ops.stack([gate(x) for gate in self.gates], axis=-2)
        return ops.matmul(gates, experts)


def main() -> None:
    """Prints the table."""
    keras.utils.set_random_seed(0)
    normal = keras.random.normal
    fields = normal((1024, 39, 16))
    query, history = normal((8, 200, 32)), normal((8, 200, 32))
    rows = normal((4096, 128))
    pairs = {
        "AutoInt, 39 fields, 2 layers of 2 x 32, batch 1024 / Keras attention": (
            step(AutoInt(2, 2, 32), fields),
            step(KerasAutoInt(), fields),
        ),
        "DIN, 8 x 200 candidates, 200 events, width 32 / concatenated": (
            step(
                TargetAttention("interest"),
                query,
                history,
            ),
            step(ConcatenatedTargetAttention(), query, history),
        ),
        "MMoE, 8 experts of 256-128, 3 tasks, batch 4096 / one Dense each": (
            step(MMoE(3, 8, (256, 128)), rows),
            step(SeparateExperts(3, 8, (256, 128)), rows),
        ),
    }
    table = Table(title="Training step, median ms", box=None, title_justify="left")
    for column in ("ours / other", "ours", "other", "other : ours"):
        table.add_column(column, justify="left" if "/" in column else "right")
    for name, (ours, other) in pairs.items():
        a, b = medians(ours, other)
        table.add_row(name, f"{a:.1f}", f"{b:.1f}", f"{b / a:.2f}")
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
