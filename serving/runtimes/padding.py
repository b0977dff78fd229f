"""Requests of a signature padded to few shapes, and their own results cut out again."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from tensorflow.core.protobuf import meta_graph_pb2

from serving.raw_values import missing_value
from serving.signature import DEFAULT_SIGNATURE, RANK_SIGNATURE

Shapes = tuple[tuple[int, ...], ...]


class Padding:
    """Fills up rows, candidates and lists with missing values.

    Args:
        definition: The signature, whose outputs begin with the axis of its rows, and of their
            candidates where it has any.
        candidate: An input of candidates; None where its rows have none.
    """

    def __init__(
        self, definition: meta_graph_pb2.SignatureDef, candidate: str | None = None
    ) -> None:
        self._names = sorted(definition.inputs)
        self._leading = candidate or self._names[0]
        self._axes = 1 if candidate is None else 2

    def shapes(self, inputs: Mapping[str, np.ndarray]) -> Shapes:
        """The shapes of a request's arrays."""
        return tuple([inputs[name].shape for name in self._names])

    def filled(self, inputs: Mapping[str, np.ndarray], shapes: Shapes) -> dict[str, np.ndarray]:
        """The arrays in these shapes, with missing values at their ends."""
        return {
            name: _filled(inputs[name], shape)
            for name, shape in zip(self._names, shapes, strict=True)
        }

    def own(
        self, results: Mapping[str, np.ndarray], inputs: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        """What of the results is the request's, not that of what was filled up."""
        sizes = inputs[self._leading].shape[: self._axes]
        cut = tuple(slice(size) for size in sizes)
        return {
            name: array if array.shape[: self._axes] == sizes else array[cut]
            for name, array in results.items()
        }


def paddings(definitions: Mapping[str, meta_graph_pb2.SignatureDef]) -> dict[str, Padding]:
    """The paddings of `serving_default` and `rank`, of an export of this project."""
    rows, rank = definitions.get(DEFAULT_SIGNATURE), definitions.get(RANK_SIGNATURE)
    found = {}
    if rows is not None and rows.inputs:
        found[DEFAULT_SIGNATURE] = Padding(rows)
        axes = {name: len(info.tensor_shape.dim) for name, info in rows.inputs.items()}
        for name, info in sorted(rank.inputs.items() if rank is not None else ()):
            if len(info.tensor_shape.dim) == axes.get(name, 0) + 1:
                found[RANK_SIGNATURE] = Padding(rank, name)
    return found


def padded(shapes: Shapes) -> Shapes:
    """The shapes to which these are filled up."""
    return tuple(tuple(map(_padded_size, shape)) for shape in shapes)


def _padded_size(size: int) -> int:
    """The next of sixteen sizes an octave: little is computed in vain, and shapes are few."""
    step = 1 << max((size - 1).bit_length() - 5, 0)
    return max(1, -(-size // step) * step)


def _filled(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    if array.shape == shape:
        return array
    found = np.full(shape, missing_value(array.dtype), array.dtype)
    found[tuple(slice(size) for size in array.shape)] = array
    return found
