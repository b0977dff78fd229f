"""The time of a call of exported signatures."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

import pyarrow as pa
import tensorflow as tf

from pipelines.export.raw_inputs import RANK_SIGNATURE, ROWS_SIGNATURE, raw_request, raw_rows
from recsys_attn.schema import Schema

_CALLS = 50


def request_call(
    signatures: Mapping[str, Any], schema: Schema, request: pa.Table
) -> Callable[[], Any]:
    """A call with one request, by the signature `rank`, or else by that of rows.

    Args:
        signatures: The signatures of an export.
        schema: Names the inputs.
        request: The raw rows of the request.
    """
    key, read = (
        (RANK_SIGNATURE, raw_request)
        if RANK_SIGNATURE in signatures
        else (ROWS_SIGNATURE, raw_rows)
    )
    raw = {name: tf.constant(array) for name, array in read(schema, request).items()}
    return lambda: signatures[key](**raw)


def milliseconds(calls: Sequence[Callable[[], Any]]) -> list[float]:
    """The median time of each call, made in turns."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(_CALLS):
        for of_call, call in zip(times, calls, strict=True):
            start = time.perf_counter()
            call()
            of_call.append(1e3 * (time.perf_counter() - start))
    return [median(of_call) for of_call in times]
