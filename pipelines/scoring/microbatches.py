"""Micro-batches: computes a batch of requests in parts, one on each processor."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import keras
import tensorflow as tf

_ROWS = 64  # candidates whose tensors fit the cache of one processor
_WEIGHTS_A_ROW = 3000  # adding up a gradient costs as much as a few rows


def one_thread_each() -> None:
    """Runs each operation on one processor, and as many operations in parallel as processors.

    This suits micro-batches. Must be called before TensorFlow computes anything; does nothing with
    a GPU or if the user has set the number of threads.
    """
    threads = tf.config.threading
    set_by_user = "TF_NUM_INTRAOP_THREADS" in os.environ
    set_by_user = set_by_user or threads.get_intra_op_parallelism_threads() > 0
    if set_by_user or _processors() == 1 or _has_gpu():
        return
    with suppress(RuntimeError):  # TensorFlow has computed already
        threads.set_intra_op_parallelism_threads(1)
        threads.set_inter_op_parallelism_threads(_processors())


def micro_batch_rows(size: int | None, tower: keras.layers.Layer) -> int | None:
    """Candidates of a micro-batch; None for the whole batch at once.

    Args:
        size: `training.micro_batch_size`: 0 for the whole batch, None to choose by device and
            tower.
        tower: The tower; more weights make gradients cost more, and micro-batches larger.
    """
    if size is not None:
        return size or None
    return None if _has_gpu() else max(_ROWS, tower.count_params() // _WEIGHTS_A_ROW)


def micro_batch_requests(mask: tf.Tensor, rows: int) -> tf.Tensor:
    """Requests of a micro-batch, with at least one micro-batch for each processor.

    Args:
        mask: Candidate mask (B, T) of the whole batch.
        rows: Candidates of a micro-batch.
    """
    requests, candidates = tf.unstack(tf.maximum(tf.shape(mask)[:2], 1))
    return tf.clip_by_value(rows // candidates, 1, -(-requests // _processors()))


def _has_gpu() -> bool:
    return bool(tf.config.list_physical_devices("GPU"))


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class MicroBatchResult(NamedTuple):
    """The result of a micro-batch.

    Attributes:
        sums: Tensors to add up.
        firsts: Tensors of which the first micro-batch's are kept.
        pieces: Tensors with a row per request, to concatenate.
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
    """Computes a batch in micro-batches, as many in parallel as there are processors.

    The tensors of thousands of requests are read from memory and written back by every operation.
    Those of a micro-batch stay in a processor's cache from the first operation to the last.

    Args:
        compute: Called with the number and the tensors of a micro-batch. It must not change
            variables, as micro-batches run in any order.
        tensors: Nested tensors, or None, with B as first axis.
        size: Requests of a micro-batch.
        zero: Zeros for `sums`, any tensors for `firsts`, and `tf.TensorSpec`s of `pieces`.

    Returns:
        The sums, added in the order of the micro-batches, the firsts, and the pieces with B rows.
    """
    flat = tf.nest.flatten(tensors)
    requests = tf.shape(next(x for x in flat if x is not None))[0]

    def body(place: tf.Tensor, sums: Any, firsts: Any, pieces: Any) -> Any:
        begin = place * size
        part = [None if x is None else x[begin : begin + size] for x in flat]
        new = compute(place, tf.nest.pack_sequence_as(tensors, part))
        return (
            place + 1,
            [total + x for total, x in zip(sums, new.sums, strict=True)],
            [tf.where(place == 0, x, old) for x, old in zip(new.firsts, firsts, strict=True)],
            [array.write(place, x) for array, x in zip(pieces, new.pieces, strict=True)],
        )

    arrays = [
        tf.TensorArray(
            spec.dtype, 0, dynamic_size=True, infer_shape=False, element_shape=spec.shape
        )
        for spec in zero.pieces
    ]
    _, sums, firsts, pieces = tf.while_loop(
        lambda place, *_: tf.logical_or(place * size < requests, place == 0),
        body,
        (0, list(zero.sums), list(zero.firsts), arrays),
        parallel_iterations=_processors(),
    )
    return MicroBatchResult(sums, firsts, [array.concat() for array in pieces])
