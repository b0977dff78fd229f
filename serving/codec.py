"""TensorProto to numpy and back: every dtype, as raw `tensor_content` or as typed fields.

A proto comes from outside, so nothing is allocated before its shape has been weighed
against what was really sent.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2, types_pb2

from serving.errors import DataLoss, unparsable_tensor

# As TensorFlow does it, the last value that was sent fills the rest of the shape. A shape
# that names more elements than this must send them.
MAX_FILLED_ELEMENTS = 2**20
MAX_RANK = 32

_FIELDS = {
    types_pb2.DT_FLOAT: "float_val",
    types_pb2.DT_DOUBLE: "double_val",
    types_pb2.DT_INT32: "int_val",
    types_pb2.DT_INT16: "int_val",
    types_pb2.DT_INT8: "int_val",
    types_pb2.DT_UINT16: "int_val",
    types_pb2.DT_UINT8: "int_val",
    types_pb2.DT_UINT32: "uint32_val",
    types_pb2.DT_INT64: "int64_val",
    types_pb2.DT_UINT64: "uint64_val",
    types_pb2.DT_BOOL: "bool_val",
    types_pb2.DT_HALF: "half_val",
    types_pb2.DT_BFLOAT16: "half_val",
    types_pb2.DT_COMPLEX64: "scomplex_val",
    types_pb2.DT_COMPLEX128: "dcomplex_val",
    types_pb2.DT_STRING: "string_val",
}
_DTYPES = {
    enum: np.dtype(object if enum == types_pb2.DT_STRING else tf.as_dtype(enum).as_numpy_dtype)
    for enum in _FIELDS
}
_ENUMS = {dtype: enum for enum, dtype in _DTYPES.items()}


def numpy_dtype(enum: int) -> np.dtype[Any] | None:
    """The numpy dtype of a tensor's dtype (`object`, of bytes, for strings); None if unknown."""
    return _DTYPES.get(enum)


def dtype_name(enum: int) -> str:
    """What people call a dtype: `float32`, `string`."""
    return tf.as_dtype(enum).name if enum in _DTYPES else f"DataType {enum}"


def parse(kind: Any, content: bytes, source: str) -> Any:
    """The message that a file holds.

    Raises:
        DataLoss: The bytes are none; the message names `source`.
    """
    try:
        return kind.FromString(content)
    except Exception as error:  # protobuf's own, which has no name in a declared dependency
        raise DataLoss(f"{source} is not a {kind.DESCRIPTOR.name}: {error}") from error


def decode(name: str, proto: tensor_pb2.TensorProto) -> np.ndarray:
    """The array of a tensor; strings become bytes.

    Args:
        name: What the errors call the tensor.
        proto: A tensor that nobody has checked.

    Returns:
        An array of the declared shape.

    Raises:
        InvalidArgument: The dtype is unknown, the shape is none, or the content does not fit it.
    """
    if proto.dtype not in _FIELDS:
        raise unparsable_tensor(name, f"dtype {proto.dtype} is not supported")
    shape = _shape(name, proto)
    values = _from_content(name, proto) if proto.tensor_content else _from_field(name, proto)
    if not values.size or values.size != math.prod(shape):
        values = _fitted(name, values, shape, fills=not proto.tensor_content)
    return values.reshape(shape)


def encode(array: Any, *, content: bool = False) -> tensor_pb2.TensorProto:
    """The tensor of an array.

    Args:
        array: An array, or what `numpy.asarray` takes; strings as str or bytes.
        content: Whether numbers travel as raw bytes (smaller work for both ends) or in the
            typed fields, where the readers of TensorFlow Serving's answers look for them.

    Raises:
        TypeError: No tensor dtype holds the array.
    """
    array = np.asarray(array)
    enum = types_pb2.DT_STRING if array.dtype.kind in "OSU" else _ENUMS.get(array.dtype)
    if enum is None:
        raise TypeError(f"No tensor holds an array of dtype {array.dtype}.")
    proto = tensor_pb2.TensorProto(dtype=enum)
    for dim in array.shape:
        proto.tensor_shape.dim.add(size=dim)
    if enum == types_pb2.DT_STRING:
        proto.string_val.extend(_to_bytes(value) for value in array.ravel().tolist())
    elif content:
        proto.tensor_content = array.tobytes()
    else:
        getattr(proto, _FIELDS[enum]).extend(_to_field(array.ravel()).tolist())
    return proto


def _shape(name: str, proto: tensor_pb2.TensorProto) -> tuple[int, ...]:
    if proto.tensor_shape.unknown_rank:
        raise unparsable_tensor(name, "a value must have a shape. Received: unknown rank")
    shape = tuple([dim.size for dim in proto.tensor_shape.dim])
    if len(shape) > MAX_RANK:
        raise unparsable_tensor(name, f"at most {MAX_RANK} axes. Received: {len(shape)}")
    if shape and min(shape) < 0:
        raise unparsable_tensor(name, f"a shape has no negative axis. Received: {shape}")
    return shape


def _from_content(name: str, proto: tensor_pb2.TensorProto) -> np.ndarray:
    content, dtype = proto.tensor_content, _DTYPES[proto.dtype]
    if proto.dtype == types_pb2.DT_STRING:
        return _string_content(name, content, math.prod(_shape(name, proto)))
    if len(content) % dtype.itemsize:
        raise unparsable_tensor(
            name,
            f"tensor_content of dtype {dtype_name(proto.dtype)} must be a multiple of "
            f"{dtype.itemsize} bytes long. Received: {len(content)}",
        )
    if proto.dtype == types_pb2.DT_BOOL:
        return np.frombuffer(content, np.uint8).astype(bool)
    return np.frombuffer(content, dtype)


def _string_content(name: str, content: bytes, count: int) -> np.ndarray:
    """All lengths as varints, then all bytes: how TensorFlow packs strings."""
    lengths: list[int] = []
    at = 0
    while len(lengths) < count:
        length = shift = 0
        while True:
            if at >= len(content) or shift > 28:
                raise unparsable_tensor(name, f"tensor_content holds no {count} strings")
            byte, at = content[at], at + 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        lengths.append(length)
    if at + sum(lengths) != len(content):
        raise unparsable_tensor(name, f"tensor_content does not end with its {count} strings")
    values = np.empty(count, object)
    for i, length in enumerate(lengths):
        values[i] = content[at : at + length]
        at += length
    return values


def _from_field(name: str, proto: tensor_pb2.TensorProto) -> np.ndarray:
    key, dtype = _FIELDS[proto.dtype], _DTYPES[proto.dtype]
    field = getattr(proto, key)
    if key in ("scomplex_val", "dcomplex_val"):
        if len(field) % 2:
            raise unparsable_tensor(name, "a complex value needs its real and imaginary part")
        return _array(field, np.empty(0, dtype).real.dtype).view(dtype)
    if key not in ("int_val", "half_val"):
        return _array(field, dtype)
    stored = np.dtype(np.uint16) if key == "half_val" else dtype
    wide = _array(field, np.dtype(np.int32))
    values = wide.astype(stored)
    if (values != wide).any():
        raise unparsable_tensor(name, f"a value is outside {dtype_name(proto.dtype)}")
    return values.view(dtype)


def _array(field: Any, dtype: np.dtype[Any]) -> np.ndarray:
    """A repeated field's values: `numpy.array` would first ask it for all that it might be."""
    return np.fromiter(field, dtype, len(field))


def _fitted(name: str, values: np.ndarray, shape: tuple[int, ...], *, fills: bool) -> np.ndarray:
    """The values of a shape that has another number of them, or none."""
    size = math.prod(shape)
    # Empty axes count as one: a model may well make a tensor of the other axes.
    if math.prod(max(dim, 1) for dim in shape) > max(MAX_FILLED_ELEMENTS, values.size):
        raise unparsable_tensor(name, f"shape {shape} needs {size} values. Received: {values.size}")
    if values.size > size or (values.size < size and not fills):
        raise unparsable_tensor(name, f"shape {shape} has {size} values. Received: {values.size}")
    last = values[-1] if values.size else (b"" if values.dtype == object else 0)
    filled = np.full(size, last, values.dtype)
    filled[: values.size] = values
    return filled


def _to_field(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind == "c":
        return array.view(array.real.dtype)
    if _FIELDS[_ENUMS[array.dtype]] == "half_val":
        return array.view(np.uint16)
    return array


def _to_bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    raise TypeError(f"A string tensor holds str or bytes. Received: {value!r}")
