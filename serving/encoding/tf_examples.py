"""The Examples of Classify, Regress and MultiInference, as the graph reads them."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from tensorflow_serving.apis import input_pb2

from serving.common.errors import empty_input


def serialized(examples: input_pb2.Input) -> np.ndarray:
    """Each Example's bytes (B,), with the context merged in.

    Raises:
        InvalidArgument: There is none.
    """
    kind = examples.WhichOneof("kind")
    if kind == "example_list_with_context":
        # Two messages one after the other are their merge: the later one's features win.
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
    """The context (1,) apart from the Examples (T,), where it can be computed once for all.

    Args:
        examples: What was sent.
        context_names: The features of the context. None where an Example has one of them, for
            itself, or where no context was sent.
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
