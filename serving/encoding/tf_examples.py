"""Conversion of the Examples of Classify, Regress and MultiInference to inputs of the graph."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from tensorflow_serving.apis import input_pb2

from serving.common.errors import empty_input


def serialized(examples: input_pb2.Input) -> np.ndarray:
    """Serialises each Example (B,), merged with the context.

    Raises:
        InvalidArgument: There is no Example.
    """
    kind = examples.WhichOneof("kind")
    if kind == "example_list_with_context":
        # Concatenated messages are merged: features of the later one win.
        context = examples.example_list_with_context.context.SerializeToString()
        found = examples.example_list_with_context.examples
    else:
        context, found = b"", examples.example_list.examples
    if not found:
        raise empty_input()
    return _strings([context + example.SerializeToString() for example in found])


def shared_context(
    examples: input_pb2.Input, context_names: Collection[str]
) -> tuple[np.ndarray, np.ndarray] | None:
    """Serialises the context (1,) and the Examples (T,) separately.

    Returns None if there is no context, or if an Example has a feature of the context.

    Args:
        examples: The Examples of the request.
        context_names: Names of the features of the context.
    """
    if examples.WhichOneof("kind") != "example_list_with_context":
        return None
    found = examples.example_list_with_context
    names = frozenset(context_names)
    if not found.examples or not all(
        names.isdisjoint(example.features.feature) for example in found.examples
    ):
        return None
    return (
        _strings([found.context.SerializeToString()]),
        _strings([example.SerializeToString() for example in found.examples]),
    )


def _strings(values: list[bytes]) -> np.ndarray:
    array = np.empty(len(values), object)
    array[:] = values
    return array
