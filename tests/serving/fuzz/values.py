"""Mutations of the values in messages: tensors, columns of candidates, Examples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from tensorflow.core.framework import tensor_pb2
from tensorflow_serving.apis import inference_pb2, predict_pb2

from serving.protos import scoring_pb2
from tests.serving.fuzz.messages import TEXTS, pick

MAX_CANDIDATES = 1000  # of the server under test
_SIZES = (0, 1, 2, 3, 7, MAX_CANDIDATES + 1, 2**20, 2**31, 2**32 + 1, 2**62, 2**63 - 1)
_ODD = (float("nan"), float("inf"), float("-inf"), -0.0, 3.4e38, 1e-45)
Mutation: TypeAlias = Callable[[np.random.Generator, Any], None]


def mutate_values(rng: np.random.Generator, message: Any) -> None:
    """Changes the values of a request."""
    if isinstance(message, predict_pb2.PredictRequest):
        pick(rng, _OF_TENSORS)(rng, message.inputs[pick(rng, sorted(message.inputs))])
    elif isinstance(message, scoring_pb2.RankRequest):
        side = pick(rng, (message.context, message.candidates))
        pick(rng, _OF_COLUMNS)(rng, side[pick(rng, sorted(side))])
    elif isinstance(message, inference_pb2.MultiInferenceRequest):
        message.tasks[0].method_name = pick(rng, TEXTS)
    elif hasattr(message, "input"):
        pick(rng, _OF_EXAMPLES)(rng, message.input)
    elif hasattr(message, "model_spec"):
        message.model_spec.version.value = pick(rng, (-1, 0, 2**63 - 1))


def _other_shape(rng: np.random.Generator, tensor: tensor_pb2.TensorProto) -> None:
    for dim in list(tensor.tensor_shape.dim) or [tensor.tensor_shape.dim.add()]:
        if rng.random() < 0.6:
            dim.size = pick(rng, _SIZES)


def _longer_shape(rng: np.random.Generator, tensor: tensor_pb2.TensorProto) -> None:
    size = pick(rng, (1, 1, 1, 0, 2, -1, -(2**63)))
    for _ in range(pick(rng, (1, 31, 33, 64, 65, 254, 255, 2000))):
        tensor.tensor_shape.dim.add(size=size)


def _no_shape(rng: np.random.Generator, tensor: tensor_pb2.TensorProto) -> None:
    tensor.ClearField("tensor_shape")
    tensor.tensor_shape.unknown_rank = bool(rng.integers(2))


def _dtype(rng: np.random.Generator, tensor: tensor_pb2.TensorProto) -> None:
    tensor.dtype = pick(rng, (*range(34), 101, 107, 200, -1, 2**31 - 1))


def _content(rng: np.random.Generator, tensor: tensor_pb2.TensorProto) -> None:
    tensor.tensor_content = rng.bytes(pick(rng, (1, 3, 4, 8, 16, 1000)))


def _packed_strings(rng: np.random.Generator, tensor: tensor_pb2.TensorProto) -> None:
    """Sets packed strings whose lengths are not those of the bytes behind them."""
    tensor.dtype = 7
    tensor.tensor_content = pick(rng, (b"\xff" * 5, b"\x80" * 40, b"\x05ab", b"\x00" * 3, b"\x01"))


def _numbers(rng: np.random.Generator, tensor: tensor_pb2.TensorProto) -> None:
    """Sets values of floats, half floats, small and quantized integers."""
    tensor.dtype = pick(rng, (1, 1, 19, 14, 4, 5, 6, 17, 11, 12, 13, 15, 16, 24, 25, 29, 30))
    tensor.ClearField("tensor_content")
    tensor.float_val[:] = [pick(rng, _ODD) for _ in range(3)]
    tensor.int_val[:] = [pick(rng, (0, -1, 65535, 65536, 2**31 - 1, 31744)) for _ in range(3)]
    tensor.half_val[:] = tensor.int_val
    tensor.float8_val = rng.bytes(3)


def _strings(rng: np.random.Generator, tensor: tensor_pb2.TensorProto) -> None:
    tensor.ClearField("tensor_content")
    tensor.dtype = 7
    tensor.string_val[:] = [rng.bytes(int(rng.integers(40))) for _ in range(3)]


_OF_TENSORS: tuple[Mutation, ...] = (
    _other_shape, _longer_shape, _no_shape, _dtype, _content, _packed_strings, _numbers, _strings,
)  # fmt: skip


def _repeat_value(column: scoring_pb2.Column, count: int) -> None:
    values = getattr(column, column.WhichOneof("values") or "floats").values
    if len(values):
        one = values[0]
        del values[:]
        values.extend([one] * count)


def _kind(rng: np.random.Generator, column: scoring_pb2.Column) -> None:
    number = pick(rng, _ODD)
    kind, value = pick(
        rng, (("strings", "a"), ("binaries", b"\xff"), ("ints", 2**63 - 1), ("floats", number))
    )
    getattr(column, kind).values.extend([value] * pick(rng, (1, 2, 3)))


def _lengths(rng: np.random.Generator, column: scoring_pb2.Column) -> None:
    choices = ([-1], [2**31 - 1] * 3, [0], [0] * 3, [1] * 5, [-(2**31), 2**31 - 1], [3, 0, 0])
    column.lengths[:] = pick(rng, choices)


def _missing(rng: np.random.Generator, column: scoring_pb2.Column) -> None:
    column.missing[:] = pick(rng, ([-1], [0, 0, 0], [2**31 - 1], list(range(3)), [-(2**31)]))


def _rows(rng: np.random.Generator, column: scoring_pb2.Column) -> None:
    _repeat_value(column, pick(rng, (0, 1, 4, MAX_CANDIDATES, MAX_CANDIDATES + 1, 20_000)))


def _padding(rng: np.random.Generator, column: scoring_pb2.Column) -> None:
    """Sets one long list among many empty ones, which are all padded to its length."""
    _repeat_value(column, 5000)
    column.lengths[:] = [5000, *[0] * pick(rng, (2, 999, 5000))]


_OF_COLUMNS: tuple[Mutation, ...] = (_kind, _lengths, _missing, _rows, _padding)


def _feature(rng: np.random.Generator, sent: Any) -> None:
    for example in _examples_of(sent):
        feature = example.features.feature[pick(rng, ("user", "price", "", "other"))]
        getattr(feature, pick(rng, ("bytes_list", "int64_list", "float_list"))).SetInParent()
        feature.float_list.value.extend([pick(rng, _ODD)] * pick(rng, (0, 1, 2, 1000)))


def _number_of_examples(rng: np.random.Generator, sent: Any) -> None:
    found = _examples_of(sent)
    one = found[0]
    del found[:]
    found.extend([one] * pick(rng, (0, MAX_CANDIDATES, MAX_CANDIDATES + 1, 5000)))


def _context(rng: np.random.Generator, sent: Any) -> None:
    feature = sent.example_list_with_context.context.features.feature[pick(rng, TEXTS)]
    feature.bytes_list.value.append(rng.bytes(8))
    if rng.random() < 0.7:
        sent.example_list_with_context.examples.add().features.SetInParent()


def _examples_of(sent: Any) -> Any:
    return getattr(sent, sent.WhichOneof("kind")).examples


_OF_EXAMPLES: tuple[Mutation, ...] = (_feature, _number_of_examples, _context)
