"""Mutations that know what the messages mean: tensors, Examples, columns of candidates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from tensorflow.core.framework import tensor_pb2
from tensorflow_serving.apis import inference_pb2, predict_pb2

from serving.protos import scoring_pb2
from tests.serving.fuzz.messages import TEXTS, pick

MAX_CANDIDATES = 1000  # of the server under test
_BIG = (2**20, 2**20 + 1, 2**31, 2**32 + 1, 2**62, 2**63 - 1)
_SIZES = (0, 1, 2, 3, 7, MAX_CANDIDATES + 1, *_BIG)
_ODD = (float("nan"), float("inf"), float("-inf"), -0.0, 3.4e38, 1e-45)
Mutation: TypeAlias = Callable[[np.random.Generator, Any], None]


def mutate_values(rng: np.random.Generator, message: Any) -> str:
    """Changes what a request is about; returns what was done, nothing where nothing could be."""
    if isinstance(message, predict_pb2.PredictRequest):
        return _apply(rng, _OF_TENSORS, message.inputs[pick(rng, sorted(message.inputs))])
    if isinstance(message, scoring_pb2.RankRequest):
        side = pick(rng, (message.context, message.candidates))
        return _apply(rng, _OF_COLUMNS, side[pick(rng, sorted(side))])
    if isinstance(message, inference_pb2.MultiInferenceRequest):
        message.tasks[0].method_name = pick(rng, TEXTS)
        return "method"
    if hasattr(message, "input"):
        return _apply(rng, _OF_EXAMPLES, message.input)
    if hasattr(message, "model_spec"):
        message.model_spec.version.value = pick(rng, (-1, 0, 2**63 - 1))
        return "version"
    return ""


def _apply(rng: np.random.Generator, mutations: dict[str, Mutation], target: Any) -> str:
    name = pick(rng, sorted(mutations))
    mutations[name](rng, target)
    return name


def _huge_shape(rng: np.random.Generator, tensor: tensor_pb2.TensorProto) -> None:
    dims = tensor.tensor_shape.dim
    for dim in list(dims) or [dims.add()]:
        if rng.random() < 0.6:
            dim.size = pick(rng, _SIZES)


def _long_shape(rng: np.random.Generator, tensor: tensor_pb2.TensorProto) -> None:
    for _ in range(pick(rng, (1, 31, 33, 64, 65, 254, 255, 2000))):
        tensor.tensor_shape.dim.add(size=pick(rng, (1, 1, 1, 0, 2)))


def _negative_shape(rng: np.random.Generator, tensor: tensor_pb2.TensorProto) -> None:
    tensor.tensor_shape.dim.add(size=pick(rng, (-1, -2, -(2**63), -(2**31))))


def _no_shape(rng: np.random.Generator, tensor: tensor_pb2.TensorProto) -> None:
    tensor.ClearField("tensor_shape")
    tensor.tensor_shape.unknown_rank = bool(rng.integers(2))


def _dtype(rng: np.random.Generator, tensor: tensor_pb2.TensorProto) -> None:
    tensor.dtype = pick(rng, (*range(34), 101, 107, 200, -1, 2**31 - 1))


def _content(rng: np.random.Generator, tensor: tensor_pb2.TensorProto) -> None:
    tensor.tensor_content = rng.bytes(pick(rng, (1, 3, 4, 8, 16, 1000)))


def _lying_strings(rng: np.random.Generator, tensor: tensor_pb2.TensorProto) -> None:
    """Packed strings whose lengths are not those of the bytes behind them."""
    tensor.dtype = 7
    tensor.tensor_content = pick(rng, (b"\xff" * 5, b"\x80" * 40, b"\x05ab", b"\x00" * 3, b"\x01"))


def _odd_numbers(rng: np.random.Generator, tensor: tensor_pb2.TensorProto) -> None:
    tensor.ClearField("tensor_content")
    tensor.float_val[:] = [pick(rng, _ODD) for _ in range(3)]


def _odd_narrow(rng: np.random.Generator, tensor: tensor_pb2.TensorProto) -> None:
    """Half floats, small and quantized integers, and floats of eight bits."""
    tensor.dtype = pick(rng, (19, 14, 4, 5, 6, 17, 11, 12, 13, 15, 16, 24, 25, 29, 30))
    tensor.ClearField("tensor_content")
    values = [pick(rng, (0, -1, 65535, 65536, 2**31 - 1, 31744)) for _ in range(3)]
    tensor.half_val[:] = values
    tensor.int_val[:] = values
    tensor.float8_val = rng.bytes(3)


def _garbage_strings(rng: np.random.Generator, tensor: tensor_pb2.TensorProto) -> None:
    """Examples and texts that are none."""
    tensor.ClearField("tensor_content")
    tensor.dtype = 7
    tensor.string_val[:] = [rng.bytes(int(rng.integers(40))) for _ in range(3)]


def _many_rows(rng: np.random.Generator, tensor: tensor_pb2.TensorProto) -> None:
    if tensor.tensor_shape.dim:
        tensor.tensor_shape.dim[0].size = pick(rng, (0, MAX_CANDIDATES, MAX_CANDIDATES + 1, 5000))


_OF_TENSORS: dict[str, Mutation] = {
    "huge shape": _huge_shape, "long shape": _long_shape, "negative shape": _negative_shape,
    "no shape": _no_shape, "dtype": _dtype, "tensor content": _content,
    "lying strings": _lying_strings, "odd numbers": _odd_numbers, "odd narrow numbers": _odd_narrow,
    "garbage strings": _garbage_strings, "many rows": _many_rows,
}  # fmt: skip


def _values_of_column(column: scoring_pb2.Column) -> Any:
    kind = column.WhichOneof("values") or "floats"
    return getattr(column, kind).values


def _column_kind(rng: np.random.Generator, column: scoring_pb2.Column) -> None:
    count = len(_values_of_column(column))
    values: dict[str, Any] = {"strings": "a", "binaries": b"\xff", "ints": 2**63 - 1, "floats": 1.5}
    kind = pick(rng, sorted(values))
    getattr(column, kind).values.extend([values[kind]] * count)


def _column_lengths(rng: np.random.Generator, column: scoring_pb2.Column) -> None:
    choices = ([-1], [2**31 - 1] * 3, [0], [0] * 3, [1] * 5, [-(2**31), 2**31 - 1], [3, 0, 0])
    column.lengths[:] = pick(rng, choices)


def _column_missing(rng: np.random.Generator, column: scoring_pb2.Column) -> None:
    column.missing[:] = pick(rng, ([-1], [0, 0, 0], [2**31 - 1], list(range(3)), [-(2**31)]))


def _column_numbers(rng: np.random.Generator, column: scoring_pb2.Column) -> None:
    column.floats.values[:] = [pick(rng, _ODD) for _ in range(3)]


def _column_rows(rng: np.random.Generator, column: scoring_pb2.Column) -> None:
    values = _values_of_column(column)
    count = pick(rng, (0, 1, 4, MAX_CANDIDATES, MAX_CANDIDATES + 1, 20_000))
    one = values[0] if len(values) else 0.0
    del values[:]
    values.extend([one] * count)


def _column_padding(rng: np.random.Generator, column: scoring_pb2.Column) -> None:
    """One long list among many empty ones, which are all padded to its length."""
    values = _values_of_column(column)
    one = values[0] if len(values) else 0.0
    values.extend([one] * (5000 - len(values)))
    column.lengths[:] = [5000, *[0] * pick(rng, (2, 999, 5000))]


_OF_COLUMNS: dict[str, Mutation] = {
    "kind of column": _column_kind, "lengths": _column_lengths, "missing": _column_missing,
    "odd column": _column_numbers, "rows of column": _column_rows, "padding": _column_padding,
}  # fmt: skip


def _feature_kinds(rng: np.random.Generator, sent: Any) -> None:
    for example in _examples_of(sent):
        feature = example.features.feature[pick(rng, ("user", "price", "", "other"))]
        getattr(feature, pick(rng, ("bytes_list", "int64_list", "float_list"))).SetInParent()


def _feature_values(rng: np.random.Generator, sent: Any) -> None:
    for example in _examples_of(sent):
        example.features.feature["price"].float_list.value.extend(
            [pick(rng, _ODD)] * pick(rng, (0, 1, 2, 1000))
        )


def _no_examples(rng: np.random.Generator, sent: Any) -> None:
    sent.example_list.SetInParent()
    del sent.example_list.examples[:]


def _many_examples(rng: np.random.Generator, sent: Any) -> None:
    found = _examples_of(sent)
    count = pick(rng, (MAX_CANDIDATES - 5, MAX_CANDIDATES + 1, 5000))
    if found:
        found.extend([found[0]] * count)


def _context(rng: np.random.Generator, sent: Any) -> None:
    feature = sent.example_list_with_context.context.features.feature[pick(rng, TEXTS)]
    feature.bytes_list.value.append(rng.bytes(8))
    if rng.random() < 0.7:
        sent.example_list_with_context.examples.add().features.SetInParent()


def _examples_of(sent: Any) -> Any:
    if sent.WhichOneof("kind") == "example_list_with_context":
        return sent.example_list_with_context.examples
    return sent.example_list.examples


_OF_EXAMPLES: dict[str, Mutation] = {
    "feature kinds": _feature_kinds, "feature values": _feature_values,
    "no examples": _no_examples, "many examples": _many_examples, "context": _context,
}  # fmt: skip
