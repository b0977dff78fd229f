"""Large requests in parts, so that no computation is larger than allowed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from serving.batching.arrays import joined, parts
from serving.common.call import Call
from serving.models.signature import Compute, Signature


class Split:
    """Computes a signature's large requests in parts: by rows, then by candidates.

    Args:
        signature: Its rows, and the candidates of each, are independent; so are the Examples of
            one that takes a context apart.
        compute: Computes a part.
        size: Most rows or candidates of a part.
    """

    def __init__(self, signature: Signature, compute: Compute, size: int) -> None:
        self._signature = signature
        self._compute = compute
        self._size = size

    async def __call__(
        self, inputs: Mapping[str, np.ndarray], outputs: Sequence[str], call: Call
    ) -> dict[str, np.ndarray]:
        rows, candidates = self._signature.count(inputs)
        if candidates <= self._size:
            return await self._compute(inputs, outputs, call)
        names, axis, size = _rows_of(inputs, rows), 0, max(1, self._size * rows // candidates)
        if rows == 1:
            names, axis, size = sorted(self._signature.candidate_names), 1, self._size
        return joined(
            [await self(part, outputs, call) for part in parts(inputs, names, axis, size)], axis
        )


def _rows_of(inputs: Mapping[str, np.ndarray], rows: int) -> list[str]:
    """The inputs that have rows: all but the one context of many Examples."""
    return [name for name, array in inputs.items() if len(array) == rows]
