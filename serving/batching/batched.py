"""Batching of a signature: which requests may share a batch, and its computation."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from serving.batching.arrays import bucket, fill_rows, merge
from serving.batching.jobs import Job
from serving.batching.scheduler import BatchScheduler
from serving.common.errors import InvalidArgument
from serving.common.request import Arrays, RequestContext
from serving.common.request_trace import RequestTrace
from serving.common.signature_names import (
    DEFAULT_SIGNATURE,
    RANK_FROM_STATE,
    RANK_SIGNATURE,
    START,
    STEP,
)
from serving.config.batching import BatchingParameters
from serving.models.signature import Compute, Signature

Fill = Callable[[np.dtype[Any]], Any]


class Batched:
    """Computes a signature's requests in batches; used in place of its own `Compute`.

    Args:
        signature: The signature. Its axes decide which requests can be joined.
        compute: Computes one batch.
        scheduler: Chooses the batches.
        parameters: Sizes and times of batches.
        fill: Returns the value of a dtype that pads lists to a common length without a change of
            any score. None: lists are padded only if `pad_variable_length_inputs` is set, with
            the first value of the array, as TensorFlow Serving does it.
    """

    def __init__(
        self,
        signature: Signature,
        compute: Compute,
        scheduler: BatchScheduler,
        parameters: BatchingParameters,
        fill: Fill | None,
    ) -> None:
        self._signature = signature
        self._compute = compute
        self._scheduler = scheduler
        self._parameters = parameters
        self._fill = fill
        # The outputs of other signatures may have an axis that grows with the padding.
        known = signature.key in (DEFAULT_SIGNATURE, RANK_SIGNATURE, START, STEP, RANK_FROM_STATE)
        self._pads = (fill is not None and known) or parameters.pad_variable_length_inputs

    def __call__(
        self, inputs: Arrays, outputs: Sequence[str], trace: RequestTrace
    ) -> dict[str, np.ndarray]:
        rows = size = 1
        key: Hashable = object()  # it shares its batch with no other request
        if self._signature.is_batched:
            rows, size = self._signature.count(inputs)
            key = self._key(inputs, outputs)
        if size > self._parameters.execution_size:
            raise InvalidArgument(
                f"Task size {size} is larger than maximum input batch size "
                f"{self._parameters.max_batch_size}"
            )
        job = Job(key, self, self._parameters, rows, size, inputs, tuple(outputs), trace, self._run)
        if trace.context.entrypoint == "WARMUP":  # has threads of its own: clients need the slots
            self._run([job])
            return job.results
        return self._scheduler.run(job)

    def _key(self, inputs: Arrays, outputs: Sequence[str]) -> Hashable:
        """Returns the same key for requests whose arrays can be joined."""
        shapes = tuple(
            tuple(map(bucket, array.shape[1:])) if self._pads else array.shape[1:]
            for _, array in sorted(inputs.items())
            if array.ndim > 1
        )
        return (self, tuple(outputs), shapes)

    def _run(self, batch: Sequence[Job]) -> None:
        requests = [job.inputs for job in batch]
        merged = merge(requests, self._filler)
        rows = [_rows(request) for request in requests]
        allowed = [n for n in self._parameters.allowed_batch_sizes if n >= sum(rows)]
        if allowed and self._signature.is_batched and not self._signature.candidate_names:
            merged = fill_rows(merged, allowed[0])
        results = self._compute(merged, batch[0].outputs, _shared_trace(batch))
        start = 0
        for job, request, count in zip(batch, requests, rows, strict=True):
            stop = start + count
            job.results = self._results_of(results, request, slice(start, stop))
            start = stop

    def _results_of(self, results: Arrays, request: Arrays, rows: slice) -> dict[str, np.ndarray]:
        """Returns the part of the batch's results that belongs to one request."""
        if not self._signature.is_batched:
            return dict(results)
        for name in self._signature.candidate_names:
            candidates = request[name].shape[1]
            return {name: array[rows, :candidates] for name, array in results.items()}
        return {name: array[rows] for name, array in results.items()}

    def _filler(self, array: np.ndarray) -> Any:
        if self._fill is not None:
            return self._fill(array.dtype)
        if array.size:
            return array.flat[0]
        return b"" if array.dtype == object else 0


def _rows(request: Arrays) -> int:
    return max([len(array) for array in request.values() if array.ndim], default=1)


def _shared_trace(batch: Sequence[Job]) -> RequestTrace:
    """Returns a trace for the batch, with the latest of the jobs' deadlines.

    Calls to a backend belong to the trace of the first job.
    """
    contexts = [job.trace.context for job in batch]
    remaining = [context.remaining() for context in contexts]
    limits = [seconds for seconds in remaining if seconds is not None]
    latest = max(limits) if len(limits) == len(remaining) else None
    first = batch[0].trace
    return RequestTrace(
        RequestContext(first.context.api, remaining=lambda: latest, trace=first.outgoing)
    )
