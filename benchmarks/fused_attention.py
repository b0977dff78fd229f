"""The mechanism Dense beside Keras' `ops.dot_product_attention`, on the backend that is set.

    python benchmarks/fused_attention.py
    KERAS_BACKEND=jax python benchmarks/fused_attention.py

Keras calls the fused kernel of a backend where it has one for the device. Both are compiled and
give the same outputs: a masked softmax of scaled dot products, zeros for an empty history. Rounds
alternate; the table has medians and their ratio, forward and then with the gradient of queries,
keys and values. Nothing is asserted about speed.
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

from recsys_attn.attention.mechanisms.dense import Dense

SHAPES = {  # B, T, S, N, H, and whether there is padding
    "39 fields, 2 heads of 16": (1024, 39, 39, 2, 16, False),
    "39 fields, 4 heads of 32": (256, 39, 39, 4, 32, False),
    "39 fields, some missing": (1024, 39, 39, 2, 16, True),
    "50 candidates, 200 events": (32, 50, 200, 4, 16, True),
    "200 events": (64, 200, 200, 4, 16, True),
    "1,024 events": (4, 1024, 1024, 2, 32, True),
    "4,096 events": (1, 4096, 4096, 2, 32, True),
}
LEAST, MOST, SECONDS = 5, 50, 4.0  # rounds, and when to stop in between
Output = Callable[..., Any]


def dense(query: Any, key: Any, value: Any, present: Any, training: bool) -> Any:
    return Dense("scaled_dot")(query, key, value, key_mask=present, training=training)[0]


def of_keras(query: Any, key: Any, value: Any, present: Any, training: bool) -> Any:
    if present is None:
        return ops.dot_product_attention(query, key, value)
    output = ops.dot_product_attention(query, key, value, mask=present[:, None, None, :])
    return ops.where(ops.any(present, axis=1)[:, None, None, None], output, 0.0)


def compiled(attention: Output, training: bool) -> Output:
    """Forward, or a gradient of queries, keys and values."""
    attention = partial(attention, training=training)

    def loss(query: Any, key: Any, value: Any, present: Any) -> Any:
        return ops.sum(ops.square(attention(query, key, value, present)))

    if keras.backend.backend() == "jax":
        import jax

        step = jax.jit(jax.grad(loss, argnums=(0, 1, 2)) if training else attention)
        return lambda *inputs: jax.block_until_ready(step(*inputs))
    import tensorflow as tf

    def gradient(query: Any, key: Any, value: Any, present: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([query, key, value])
            total = loss(query, key, value, present)
        return tape.gradient(total, [query, key, value])

    return tf.function(gradient if training else attention, autograph=False)


def seconds(steps: list[Output], inputs: list[Any]) -> list[float]:
    """Medians of rounds in turns."""
    # JAX multiplies in TF32 on a GPU.
    limit = 1e-3 if keras.distribution.list_devices("gpu") else 1e-5
    outputs = [step(*inputs) for step in steps for _ in range(2)][1::2]
    for ours, theirs in zip(*map(keras.tree.flatten, outputs), strict=True):
        mine, other = map(ops.convert_to_numpy, (ours, theirs))
        apart = np.linalg.norm(mine - other) / np.linalg.norm(other)
        if not apart < limit:
            raise ValueError(f"the two give different outputs, by {apart:.1e} of their norm")
    times: list[list[float]] = [[] for _ in steps]
    while len(times[0]) < LEAST or (len(times[0]) < MOST and sum(map(sum, times)) < SECONDS):
        turns = list(zip(steps, times, strict=True))
        for step, taken in turns if len(times[0]) % 2 else reversed(turns):
            begin = time.perf_counter()
            step(*inputs)
            taken.append(time.perf_counter() - begin)
    return [float(np.median(taken)) for taken in times]


def main() -> None:
    table = Table("shape", *("Dense, ms", "Keras, ms", "ratio") * 2)
    for name, (batch, queries, keys, heads, size, padded) in SHAPES.items():
        rng = np.random.default_rng(0)
        shapes = [(batch, count, heads, size) for count in (queries, keys, keys)]
        inputs: list[Any] = [
            ops.convert_to_tensor(rng.normal(size=shape).astype("float32")) for shape in shapes
        ]
        present = rng.random((batch, keys)) < 0.8
        present[: batch > 1] = False  # an empty history, beside others
        inputs.append(ops.convert_to_tensor(present) if padded else None)
        row = [name]
        for training in (False, True):
            steps = [compiled(attention, training) for attention in (dense, of_keras)]
            ours, theirs = seconds(steps, inputs)
            row += [f"{1e3 * ours:.1f}", f"{1e3 * theirs:.1f}", f"{theirs / ours:.2f}"]
        table.add_row(*row)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
