"""Padding of `rank` requests to few sizes, so that few shapes are compiled."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from tensorflow.core.protobuf import meta_graph_pb2

from serving.common.signature_names import DEFAULT_SIGNATURE, RANK_SIGNATURE
from serving.encoding.raw_values import missing_value

Arrays = Mapping[str, np.ndarray]
Sizes = tuple[int, ...]


class RankPadding:
    """Pads rows and candidates with missing values; lists keep their length.

    Args:
        definition: The signature. Its inputs and outputs start with the axis of the rows; those
            of candidates have the axis of the candidates next.
        candidates: Names of the inputs of candidates.

    Attributes:
        takes_lists: Whether one of the inputs is a list.
    """

    def __init__(self, definition: meta_graph_pb2.SignatureDef, candidates: frozenset[str]) -> None:
        self._candidates = candidates
        self.takes_lists = any(
            len(info.tensor_shape.dim) > self._axes(name)
            for name, info in definition.inputs.items()
        )

    def sizes(self, inputs: Arrays) -> Sizes:
        """Returns the numbers of rows and of candidates of a request."""
        return inputs[min(self._candidates)].shape[:2]

    def pad(self, inputs: Arrays, sizes: Sizes) -> Arrays:
        """Returns the inputs with missing values at the end of their rows and candidates."""
        if self.sizes(inputs) == sizes:
            return inputs
        return {
            name: _padded(array, (*sizes[: self._axes(name)], *array.shape[self._axes(name) :]))
            for name, array in inputs.items()
        }

    def missing(self, inputs: Arrays) -> dict[str, np.ndarray]:
        """Returns inputs of the same sizes with missing values only, and with longer lists."""
        arrays = {}
        for name, array in inputs.items():
            axes = self._axes(name)
            shape = (*array.shape[:axes], *(size + 1 for size in array.shape[axes:]))
            arrays[name] = np.full(shape, missing_value(array.dtype), array.dtype)
        return arrays

    def unpad(self, results: Arrays, sizes: Sizes) -> dict[str, np.ndarray]:
        """Returns the results of the request's own rows and candidates."""
        part = tuple(map(slice, sizes))
        return {
            name: array if array.shape[: len(sizes)] == sizes else array[part]
            for name, array in results.items()
        }

    def _axes(self, name: str) -> int:
        return 2 if name in self._candidates else 1


def rank_padding(
    definitions: Mapping[str, meta_graph_pb2.SignatureDef],
) -> RankPadding | None:
    """Returns the padding of the signature `rank`, or None if there is no such signature.

    Inputs of candidates have one axis more in `rank` than in `serving_default`.
    """
    rows, rank = definitions.get(DEFAULT_SIGNATURE), definitions.get(RANK_SIGNATURE)
    if rows is None or rank is None:
        return None
    axes = {name: len(info.tensor_shape.dim) for name, info in rows.inputs.items()}
    candidates = frozenset(
        name
        for name, info in rank.inputs.items()
        if len(info.tensor_shape.dim) == axes.get(name, 0) + 1
    )
    return RankPadding(rank, candidates) if candidates else None


def padded_sizes(sizes: Sizes) -> Sizes:
    """Returns the sizes that a request is padded to."""
    return tuple(map(_padded_size, sizes))


def _padded_size(size: int) -> int:
    # Sixteen sizes an octave: at most a sixteenth of the computation is wasted, shapes are few.
    step = 1 << max((size - 1).bit_length() - 5, 0)
    return max(1, -(-size // step) * step)


def _padded(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    if array.shape == shape:
        return array
    padded = np.full(shape, missing_value(array.dtype), array.dtype)
    padded[tuple(map(slice, array.shape))] = array
    return padded
