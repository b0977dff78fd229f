"""The parameters of batching, with TensorFlow Serving's names and defaults."""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass

from serving.common.errors import InvalidArgument


@dataclass(frozen=True)
class BatchingParameters:
    """Parameters of the batches of one signature.

    Args:
        max_batch_size: Largest batch, in rows or candidates. Defaults to 1000.
        batch_timeout_micros: Microseconds that the first request of a batch waits for others
            while a thread is free. Defaults to 0: requests that arrive while all threads are
            busy make the next batch. Raise it for throughput at the cost of latency.
        max_enqueued_batches: Batches that may wait; further requests are rejected. Defaults to 10.
        num_batch_threads: Batches of all models that are computed at the same time. Defaults to
            the number of CPUs.
        allowed_batch_sizes: Sizes that batches are padded to, in increasing order up to the
            largest batch. Defaults to any size.
        pad_variable_length_inputs: Whether lists of different lengths may share a batch, padded
            to the longest.
        enable_large_batch_splitting: Whether larger requests are computed in parts instead of
            rejected.
        max_execution_batch_size: Size of these parts; 0 for `max_batch_size`.
    """

    max_batch_size: int = 1000
    batch_timeout_micros: int = 0
    max_enqueued_batches: int = 10
    num_batch_threads: int = os.cpu_count() or 1
    allowed_batch_sizes: tuple[int, ...] = ()
    pad_variable_length_inputs: bool = False
    enable_large_batch_splitting: bool = False
    max_execution_batch_size: int = 0

    def __post_init__(self) -> None:
        for name in ("max_batch_size", "max_enqueued_batches", "num_batch_threads"):
            if getattr(self, name) < 1:
                raise InvalidArgument(
                    f"`{name}` must be a positive number. Received: {getattr(self, name)}"
                )
        for name in ("batch_timeout_micros", "max_execution_batch_size"):
            if getattr(self, name) < 0:
                raise InvalidArgument(
                    f"`{name}` must not be negative. Received: {getattr(self, name)}"
                )
        if self.max_execution_batch_size and not self.enable_large_batch_splitting:
            raise InvalidArgument(
                "`max_execution_batch_size` needs `enable_large_batch_splitting`: set both, or "
                "leave it out."
            )
        if self.max_execution_batch_size > self.max_batch_size:
            raise InvalidArgument(
                f"`max_execution_batch_size` ({self.max_execution_batch_size}) must not be larger "
                f"than `max_batch_size` ({self.max_batch_size})."
            )
        self._check_sizes()

    def _check_sizes(self) -> None:
        sizes = self.allowed_batch_sizes
        if not sizes:
            return
        if sizes[0] < 1 or any(a >= b for a, b in itertools.pairwise(sizes)):
            raise InvalidArgument(
                f"`allowed_batch_sizes` must be positive and increasing. Received: {list(sizes)}"
            )
        if sizes[-1] != self.execution_size:
            raise InvalidArgument(
                f"The last of `allowed_batch_sizes` must be the largest batch, "
                f"{self.execution_size}. Received: {list(sizes)}"
            )

    @property
    def execution_size(self) -> int:
        """Size of the largest batch that is computed."""
        return self.max_execution_batch_size or self.max_batch_size
