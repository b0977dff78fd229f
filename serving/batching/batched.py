"""A signature's requests as jobs: which may share a batch, and how a batch is computed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from serving.batching.arrays import bucket, grown, merge
from serving.batching.jobs import Job
from serving.common.answering import finished
from serving.common.call import Call
from serving.common.errors import InvalidArgument
from serving.common.signatures import DEFAULT_SIGNATURE, RANK_SIGNATURE
from serving.config.batching import BatchingParameters
from serving.models.signature import Compute, Signature

Fill = Callable[[np.dtype[Any]], Any]


class Batched:
    """Computes a signature's requests together; stands where its own `Compute` stood.

    Args:
        signature: The signature: its axes say what may be joined.
        compute: Computes one batch.
        parameters: Sizes and times.
        fill: The value of a dtype that lists may be filled up with to a common length without a
            change of any score. None: they are filled up only where `pad_variable_length_inputs`
            says so, with the first value of the array, as TensorFlow Serving does it.
    """

    def __init__(
        self,
        signature: Signature,
        compute: Compute,
        parameters: BatchingParameters,
        fill: Fill | None,
    ) -> None:
        self._signature = signature
        self._compute = compute
        self._parameters = parameters
        self._fill = fill
        # The outputs of other signatures may have an axis of what is filled up.
        known = signature.key in (DEFAULT_SIGNATURE, RANK_SIGNATURE)
        self._pads = (fill is not None and known) or parameters.pad_variable_length_inputs

    async def __call__(
        self, inputs: Mapping[str, np.ndarray], outputs: Sequence[str], call: Call
    ) -> dict[str, np.ndarray]:
        size = 1
        lane: Hashable = object()  # no other request is of it
        if self._signature.is_batched:
            _, size = self._signature.count(inputs)
            lane = self._lane(inputs, outputs)
        if size > self._parameters.execution_size:
            raise InvalidArgument(
                f"Task size {size} is larger than maximum input batch size "
                f"{self._parameters.max_batch_size}"
            )
        job = Job(lane, self, self._parameters, size, call, self._run, (inputs, tuple(outputs)))
        if call.entrypoint == "WARMUP":  # its thread has a low priority: requests need the slots
            self._run([job])
            return job.results
        found: dict[str, np.ndarray] = await job
        return found

    def _lane(self, inputs: Mapping[str, np.ndarray], outputs: Sequence[str]) -> Hashable:
        """Of one lane are requests whose arrays can be joined."""
        shapes = tuple(
            tuple(map(bucket, array.shape[1:])) if self._pads else array.shape[1:]
            for _, array in sorted(inputs.items())
            if array.ndim > 1
        )
        return (self, tuple(outputs), shapes)

    def _run(self, batch: Sequence[Job]) -> None:
        requests = [job.payload[0] for job in batch]
        outputs = batch[0].payload[1]
        merged = merge(requests, self._filler)
        rows = [_rows(request) for request in requests]
        allowed = [n for n in self._parameters.allowed_batch_sizes if n >= sum(rows)]
        if allowed and self._signature.is_batched and not self._signature.candidate_names:
            merged = grown(merged, allowed[0])
        results = finished(self._compute(merged, outputs, _together(batch)))
        start = 0
        for job, request, count in zip(batch, requests, rows, strict=True):
            stop = start + count
            job.results = self._own(results, request, slice(start, stop))
            start = stop

    def _own(
        self, results: Mapping[str, np.ndarray], request: Mapping[str, np.ndarray], rows: slice
    ) -> dict[str, np.ndarray]:
        """What one request gets of its batch's results."""
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


def _rows(request: Mapping[str, np.ndarray]) -> int:
    return max([len(array) for array in request.values() if array.ndim], default=1)


def _together(batch: Sequence[Job]) -> Call:
    """The call of all: it waits as long as the most patient of them."""
    remaining = [job.call.remaining() for job in batch]
    known = [seconds for seconds in remaining if seconds is not None]
    patience = max(known) if len(known) == len(remaining) else None
    return Call(batch[0].call.api, remaining=lambda: patience)
