"""Loops over chunks of places, so that memory does not grow with their number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from recsys_attn.tensors import Tensor

_TENSORFLOW = keras.backend.backend() == "tensorflow"
if _TENSORFLOW:
    import tensorflow as tf

Sums = tuple[Tensor, ...]
Step = Callable[[Sums, Tensor, Tensor], tuple[Sums, Tensor]]


def in_chunks(step: Step, initial: Sums, count: Any, most: int) -> tuple[Sums, Tensor]:
    """Computes sums over places, and a row of each place, from one chunk after the other.

    The chunks have nearly the same size C. No gradient passes through it.

    Args:
        step: From the sums so far, the places `(C,)` of a chunk and which of them count, `(C,)`
            float32, to the new sums and the rows `(C, ...)`, float32. In the last chunk the last
            place may come again, and does not count then.
        initial: The sums before the first chunk.
        count: Number of places P, an integer; on TensorFlow it may be a tensor.
        most: Greatest number of places in a chunk.

    Returns:
        The sums, and the rows `(P, ...)`.
    """
    chunks = count // most + 1
    size = -(-count // chunks)

    def chunk(sums: Sums, index: Tensor) -> tuple[Sums, Tensor]:
        places = index * size + ops.arange(size, dtype="int32")
        counts = ops.cast(places < count, "float32")
        return step(sums, ops.minimum(places, count - 1), counts)

    if _TENSORFLOW:
        sums, rows = _on_tensorflow(chunk, initial, chunks)
    else:
        sums, rows = ops.scan(chunk, initial, ops.arange(chunks, dtype="int32"))
    return sums, ops.reshape(rows, (chunks * size, *rows.shape[2:]))[:count]


def _on_tensorflow(
    chunk: Callable[[Sums, Tensor], tuple[Sums, Tensor]], initial: Sums, chunks: Any
) -> tuple[Sums, Tensor]:
    # Keras' scan wants rows of the shape of the sums, and its `while_loop` computes ten chunks at
    # once, each with memory of its own.
    def body(index: Tensor, sums: Sums, rows: Any) -> tuple[Tensor, Sums, Any]:
        sums, of_chunk = chunk(sums, index)
        return index + 1, sums, rows.write(index, of_chunk)

    rows = tf.TensorArray("float32", size=chunks)
    start = (tf.constant(0), initial, rows)
    _, sums, rows = tf.while_loop(lambda i, *_: i < chunks, body, start, parallel_iterations=1)
    return sums, rows.stack()
