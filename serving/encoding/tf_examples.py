"""Conversion of the Examples of Classify, Regress and MultiInference to inputs of the graph."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from tensorflow_serving.apis import input_pb2

from serving.common.errors import InvalidArgument
from serving.encoding.array_values import Misfit, fitted
from serving.encoding.features import TensorSpec, check_histories
from serving.encoding.raw_values import takes_raw_values

_LISTS = {"O": "bytes_list", "i": "int64_list", "f": "float_list"}  # by the kind of a dtype
_DTYPES = {"bytes_list": object, "int64_list": np.int64, "float_list": np.float32}


def fit_examples(examples: input_pb2.Input, features: Mapping[str, TensorSpec]) -> None:
    """Converts values to the type of their feature, in place.

    Args:
        examples: The Examples of the request.
        features: The features of the model; others are left as they are.

    Raises:
        InvalidArgument: A feature does not hold its values, or the lists of one history differ in
            length; the message names them.
    """
    shared = examples.example_list_with_context
    rows: list[Iterable[Any]] = [examples.example_list.examples, shared.examples]
    if examples.WhichOneof("kind") == "example_list_with_context":
        rows.append([shared.context])
    dtypes = {
        name: spec.numpy_dtype
        for name, spec in features.items()
        if takes_raw_values(spec.numpy_dtype)
    }
    sent: dict[str, list[Any]] = {}  # of the feature's type
    for example in (one for part in rows for one in part):
        for name, feature in example.features.feature.items():
            kind, dtype = feature.WhichOneof("kind"), dtypes.get(name)
            if kind is None or dtype is None:
                continue
            if kind == _LISTS[dtype.kind]:
                sent.setdefault(name, []).extend(getattr(feature, kind).value)
                continue
            converted = _fitted(name, getattr(feature, kind).value, kind, dtype).tolist()
            feature.Clear()
            getattr(feature, _LISTS[dtype.kind]).value.extend(converted)
    for name, values in sent.items():
        _fitted(name, values, _LISTS[dtypes[name].kind], dtypes[name])
    _check_events(examples, features)


def _check_events(examples: input_pb2.Input, features: Mapping[str, TensorSpec]) -> None:
    """Checks that the lists of one history are equally long in each Example."""
    shared = examples.example_list_with_context
    rows = [one.features.feature for one in (*examples.example_list.examples, *shared.examples)]
    context = shared.context.features.feature

    def lengths(name: str) -> Sequence[int]:
        # The value of an Example wins over that of the context.
        return [_length(row[name] if name in row else context.get(name)) for row in rows]

    check_histories(features, lengths, "Example {}")


def _length(feature: Any) -> int:
    kind = feature and feature.WhichOneof("kind")
    return len(getattr(feature, kind).value) if kind else 0


def _fitted(name: str, sent: Sequence[Any], kind: str, dtype: np.dtype[Any]) -> np.ndarray:
    values = np.empty(len(sent), _DTYPES[kind])
    values[:] = sent
    try:
        return fitted(values, dtype)
    except Misfit as misfit:
        raise InvalidArgument(f"Feature {name!r}: {misfit}") from None


def serialized(examples: input_pb2.Input) -> np.ndarray:
    """Serialises each Example (B,), merged with the context.

    Raises:
        InvalidArgument: There is no Example.
    """
    kind = examples.WhichOneof("kind")
    if kind == "example_list_with_context":
        # Concatenated messages are merged: features of the later one win.
        context = examples.example_list_with_context.context.SerializeToString()
        rows = examples.example_list_with_context.examples
    else:
        context, rows = b"", examples.example_list.examples
    if not rows:
        raise InvalidArgument("Input is empty.")
    return _strings([context + example.SerializeToString() for example in rows])


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
    message = examples.example_list_with_context
    names = frozenset(context_names)
    if not message.examples or not all(
        names.isdisjoint(example.features.feature) for example in message.examples
    ):
        return None
    return (
        _strings([message.context.SerializeToString()]),
        _strings([example.SerializeToString() for example in message.examples]),
    )


def _strings(values: list[bytes]) -> np.ndarray:
    array = np.empty(len(values), object)
    array[:] = values
    return array
