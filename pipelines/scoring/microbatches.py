"""Arithmetic on a batch of requests, some of them at a time and a part on each processor."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import keras
import tensorflow as tf

_ROWS = 64  # whose tensors stay in the cache of one processor
_WEIGHTS_A_ROW = 3000  # to add up a weight's gradient costs as much as a few rows' arithmetic


def one_thread_each() -> None:
    """Computes each operation on one processor, and as many operations at once as there are.

    That suits parts, which need no cutting within. It has to be called before TensorFlow computes
    anything, and changes nothing with a GPU or where the user has set threads.
    """
    threads = tf.config.threading
    set_by_user = "TF_NUM_INTRAOP_THREADS" in os.environ
    set_by_user = set_by_user or threads.get_intra_op_parallelism_threads() > 0
    if set_by_user or _processors() == 1 or _has_gpu():
        return
    with suppress(RuntimeError):  # it has computed already
        threads.set_intra_op_parallelism_threads(1)
        threads.set_inter_op_parallelism_threads(_processors())


def micro_batch_rows(wanted: int | None, tower: keras.layers.Layer) -> int | None:
    """Candidates of a part; None for the whole batch at once.

    Args:
        wanted: As an experiment says: 0 for the whole; None for what suits device and tower.
        tower: Whose gradients every part adds to those of the others.
    """
    if wanted is not None:
        return wanted or None
    return None if _has_gpu() else max(_ROWS, tower.count_params() // _WEIGHTS_A_ROW)


def micro_batch_requests(mask: tf.Tensor, rows: int) -> tf.Tensor:
    """Requests of a part of so many candidates; there is a part for every processor.

    Args:
        mask: (B, T), of the whole batch.
        rows: Candidates of a part.
    """
    requests, candidates = tf.unstack(tf.maximum(tf.shape(mask)[:2], 1))
    return tf.clip_by_value(rows // candidates, 1, -(-requests // _processors()))


def _has_gpu() -> bool:
    return bool(tf.config.list_physical_devices("GPU"))


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class MicroBatchResult(NamedTuple):
    """What is computed of a part.

    Attributes:
        sums: Tensors that are added over the parts.
        firsts: Tensors that are kept of the first part.
        pieces: Tensors whose rows are those of the part.
    """

    sums: Sequence[tf.Tensor]
    firsts: Sequence[tf.Tensor]
    pieces: Sequence[tf.Tensor]


def over_micro_batches(
    compute: Callable[[tf.Tensor, Any], MicroBatchResult],
    tensors: Any,
    size: Any,
    zero: MicroBatchResult,
) -> MicroBatchResult:
    """Computes some requests at a time, as many parts at once as there are processors.

    A batch of thousands of requests makes tensors of a hundred megabytes, which every operation
    reads from memory and writes back, and has to be cut for the processors anew by each
    operation. A small part stays in a processor's cache from the first operation to the last.

    Args:
        compute: Given the number of the part and its part of `tensors`. It must not change
            variables: parts are computed in no order.
        tensors: Nested tensors, or None, with B as first axis.
        size: Requests of a part.
        zero: Tensors of zeros for `sums`, anything for `firsts`, and `tf.TensorSpec`s of `pieces`.

    Returns:
        The sums and firsts, and the pieces as tensors of B rows. The sums are added in the order
        of the parts.
    """
    flat = tf.nest.flatten(tensors)
    requests = tf.shape(next(x for x in flat if x is not None))[0]

    def body(place: tf.Tensor, sums: Any, firsts: Any, found: Any) -> Any:
        begin = place * size
        part = [None if x is None else x[begin : begin + size] for x in flat]
        new = compute(place, tf.nest.pack_sequence_as(tensors, part))
        return (
            place + 1,
            [total + x for total, x in zip(sums, new.sums, strict=True)],
            [tf.where(place == 0, x, old) for x, old in zip(new.firsts, firsts, strict=True)],
            [array.write(place, x) for array, x in zip(found, new.pieces, strict=True)],
        )

    arrays = [
        tf.TensorArray(
            spec.dtype, 0, dynamic_size=True, infer_shape=False, element_shape=spec.shape
        )
        for spec in zero.pieces
    ]
    _, sums, firsts, found = tf.while_loop(
        lambda place, *_: tf.logical_or(place * size < requests, place == 0),
        body,
        (0, list(zero.sums), list(zero.firsts), arrays),
        parallel_iterations=_processors(),
    )
    return MicroBatchResult(sums, firsts, [array.concat() for array in found])
