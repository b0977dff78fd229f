"""Requests of a signature padded to few sizes, and their own results cut out again."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from tensorflow.core.protobuf import meta_graph_pb2

from serving.common.signatures import DEFAULT_SIGNATURE, RANK_SIGNATURE
from serving.encoding.raw_values import missing_value

Arrays = Mapping[str, np.ndarray]
Sizes = tuple[int, ...]


class Padding:
    """Fills up rows and candidates with missing values; lists stay as long as they are.

    Args:
        definition: The signature, whose inputs and outputs begin with the axis of its rows, and
            those of candidates with that of their candidates after it.
        candidates: The inputs of candidates; none where its rows are scored. They tell whether
            the outputs are of candidates.

    Attributes:
        takes_lists: Whether one of the inputs takes lists.
    """

    def __init__(
        self,
        definition: meta_graph_pb2.SignatureDef,
        candidates: frozenset[str] = frozenset(),
    ) -> None:
        self._candidates = candidates
        self._leading = min(candidates or definition.inputs)
        self.takes_lists = any(
            len(info.tensor_shape.dim) > self._axes(name)
            for name, info in definition.inputs.items()
        )

    def sizes(self, inputs: Arrays) -> Sizes:
        """How many rows a request has, and how many candidates each."""
        return inputs[self._leading].shape[: self._axes(self._leading)]

    def filled(self, inputs: Arrays, sizes: Sizes) -> Arrays:
        """The arrays of so many rows and candidates, with missing values at their ends."""
        if self.sizes(inputs) == sizes:
            return inputs
        found = {}
        for name, array in inputs.items():
            axes = self._axes(name)
            found[name] = _filled(array, (*sizes[:axes], *array.shape[axes:]))
        return found

    def missing(self, inputs: Arrays) -> dict[str, np.ndarray]:
        """Arrays of as many rows and candidates without a value, with longer lists."""
        found = {}
        for name, array in inputs.items():
            axes = self._axes(name)
            shape = (*array.shape[:axes], *(size + 1 for size in array.shape[axes:]))
            found[name] = np.full(shape, missing_value(array.dtype), array.dtype)
        return found

    def own(self, results: Arrays, sizes: Sizes) -> dict[str, np.ndarray]:
        """What of the results is of so many rows and candidates, not of what was filled up."""
        cut = tuple(map(slice, sizes))
        return {
            name: array if array.shape[: len(sizes)] == sizes else array[cut]
            for name, array in results.items()
        }

    def _axes(self, name: str) -> int:
        return 2 if name in self._candidates else 1


def paddings(definitions: Mapping[str, meta_graph_pb2.SignatureDef]) -> dict[str, Padding]:
    """The paddings of `serving_default` and `rank`, of an export of this project."""
    rows, rank = definitions.get(DEFAULT_SIGNATURE), definitions.get(RANK_SIGNATURE)
    found = {}
    if rows is not None and rows.inputs:
        found[DEFAULT_SIGNATURE] = Padding(rows)
        axes = {name: len(info.tensor_shape.dim) for name, info in rows.inputs.items()}
        candidates = frozenset(
            name
            for name, info in (rank.inputs.items() if rank is not None else ())
            if len(info.tensor_shape.dim) == axes.get(name, 0) + 1
        )
        if rank is not None and candidates:
            found[RANK_SIGNATURE] = Padding(rank, candidates)
    return found


def padded(sizes: Sizes) -> Sizes:
    """The sizes to which these are filled up."""
    return tuple(map(_padded_size, sizes))


def _padded_size(size: int) -> int:
    """The next of sixteen sizes an octave: little is computed in vain, and shapes are few."""
    step = 1 << max((size - 1).bit_length() - 5, 0)
    return max(1, -(-size // step) * step)


def _filled(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    if array.shape == shape:
        return array
    found = np.full(shape, missing_value(array.dtype), array.dtype)
    found[tuple(map(slice, array.shape))] = array
    return found
