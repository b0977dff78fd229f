"""Large requests in chunks, so that no computation is larger than allowed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from serving.batching.arrays import chunks, join
from serving.common.request import Arrays
from serving.common.request_trace import RequestTrace
from serving.models.signature import Compute, Signature


class Chunked:
    """Computes a signature's large requests in chunks: of rows, then of candidates.

    Args:
        signature: Its rows, and the candidates of each, are independent; so are the Examples of
            a signature with a context of its own.
        compute: Computes a chunk.
        size: Most rows or candidates of a chunk.
    """

    def __init__(self, signature: Signature, compute: Compute, size: int) -> None:
        self._signature = signature
        self._compute = compute
        self._size = size

    def __call__(
        self, inputs: Arrays, outputs: Sequence[str], trace: RequestTrace
    ) -> dict[str, np.ndarray]:
        rows, candidates = self._signature.count(inputs)
        if candidates <= self._size:
            return self._compute(inputs, outputs, trace)
        names, axis, size = _with_rows(inputs, rows), 0, max(1, self._size * rows // candidates)
        if rows == 1:
            names, axis, size = sorted(self._signature.candidate_names), 1, self._size
        return join(
            [self(chunk, outputs, trace) for chunk in chunks(inputs, names, axis, size)], axis
        )


def _with_rows(inputs: Arrays, rows: int) -> list[str]:
    """Returns the inputs that have rows: all but the one context of many Examples."""
    return [name for name, array in inputs.items() if len(array) == rows]
