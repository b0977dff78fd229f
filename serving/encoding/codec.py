"""Conversion between TensorProto and NumPy: every dtype, from raw bytes or from typed fields.

A TensorProto is TensorFlow's in the server, and that of `serving/protos` in the client, which does
not import TensorFlow.

A request may declare any shape, so its size is checked against its content before memory is
allocated for it.
"""

from __future__ import annotations

import functools
import math
from typing import Any, TypeVar

import ml_dtypes
import numpy as np

from serving.common.errors import DataLoss, InvalidArgument, ServingError
from serving.protos import tensorflow_serving_pb2 as pb

Message = TypeVar("Message", bound=Any)

# As in TensorFlow, the last value fills the rest of the shape. A larger shape needs all its values.
MAX_FILLED_ELEMENTS = 2**20
MAX_RANK = 32
_MAX_CACHED_SHAPE = 64  # bytes; axes may have names of any length

# The typed field of a dtype, and its NumPy dtype.
_TYPES: dict[int, tuple[str, Any]] = {
    pb.DT_FLOAT: ("float_val", np.float32),
    pb.DT_DOUBLE: ("double_val", np.float64),
    pb.DT_INT32: ("int_val", np.int32),
    pb.DT_INT16: ("int_val", np.int16),
    pb.DT_INT8: ("int_val", np.int8),
    pb.DT_UINT16: ("int_val", np.uint16),
    pb.DT_UINT8: ("int_val", np.uint8),
    pb.DT_UINT32: ("uint32_val", np.uint32),
    pb.DT_INT64: ("int64_val", np.int64),
    pb.DT_UINT64: ("uint64_val", np.uint64),
    pb.DT_BOOL: ("bool_val", np.bool_),
    pb.DT_HALF: ("half_val", np.float16),
    pb.DT_BFLOAT16: ("half_val", ml_dtypes.bfloat16),
    pb.DT_COMPLEX64: ("scomplex_val", np.complex64),
    pb.DT_COMPLEX128: ("dcomplex_val", np.complex128),
    pb.DT_STRING: ("string_val", object),
    pb.DT_QINT8: ("int_val", [("qint8", np.int8)]),
    pb.DT_QUINT8: ("int_val", [("quint8", np.uint8)]),
    pb.DT_QINT16: ("int_val", [("qint16", np.int16)]),
    pb.DT_QUINT16: ("int_val", [("quint16", np.uint16)]),
    pb.DT_QINT32: ("int_val", [("qint32", np.int32)]),
    pb.DT_INT4: ("int_val", ml_dtypes.int4),
    pb.DT_UINT4: ("int_val", ml_dtypes.uint4),
    pb.DT_FLOAT8_E5M2: ("float8_val", ml_dtypes.float8_e5m2),
    pb.DT_FLOAT8_E4M3FN: ("float8_val", ml_dtypes.float8_e4m3fn),
    pb.DT_FLOAT8_E4M3FNUZ: ("float8_val", ml_dtypes.float8_e4m3fnuz),
    pb.DT_FLOAT8_E4M3B11FNUZ: ("float8_val", ml_dtypes.float8_e4m3b11fnuz),
    pb.DT_FLOAT8_E5M2FNUZ: ("float8_val", ml_dtypes.float8_e5m2fnuz),
}
_FIELDS = {enum: field for enum, (field, _) in _TYPES.items()}
_DTYPES: dict[int, np.dtype[Any]] = {enum: np.dtype(kind) for enum, (_, kind) in _TYPES.items()}
_ENUMS = {dtype: enum for enum, dtype in _DTYPES.items()}


def plain_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Returns the integer dtype of a quantized dtype, which NumPy stores in a field."""
    return dtype[0] if dtype.names else dtype


def _stored(enum: int) -> np.dtype[Any]:
    """Returns the dtype of a tensor's raw bytes; the typed field may hold a wider one."""
    field, dtype = _FIELDS[enum], _DTYPES[enum]
    if field == "half_val":
        return np.dtype(np.uint16)
    return np.empty(0, dtype).real.dtype if dtype.kind == "c" else plain_dtype(dtype)


_STORED = {enum: _stored(enum) for enum in _FIELDS}
# Dtypes whose typed field holds values of another dtype.
_CONVERTED = {
    enum
    for enum, field in _FIELDS.items()
    if field in ("int_val", "half_val", "float8_val", "scomplex_val", "dcomplex_val")
    and enum != pb.DT_INT32
}


def numpy_dtype(enum: int) -> np.dtype[Any] | None:
    """Returns the NumPy dtype of a tensor's dtype (`object` for strings), or None if unknown."""
    return _DTYPES.get(enum)


def dtype_name(enum: int) -> str:
    """Returns the name of a dtype, such as `float32` or `string`."""
    dtype = _DTYPES.get(enum)
    if dtype is None:
        return f"DataType {enum}"
    if dtype.names:  # quantized
        return dtype.names[0]
    return "string" if dtype.kind == "O" else dtype.name


def parse(kind: Any, content: bytes, source: str) -> Any:
    """Parses the content of a file as a message.

    Raises:
        DataLoss: The bytes are no such message; the error names `source`.
    """
    try:
        return kind.FromString(content)
    except Exception as error:  # protobuf's DecodeError has no public name
        raise DataLoss(f"{source} is not a {kind.DESCRIPTOR.name}: {error}") from error


def decode(name: str, proto: Any) -> np.ndarray:
    """Converts a tensor to an array; strings become bytes.

    Args:
        name: Name of the tensor, for errors.
        proto: A TensorProto, as it was received.

    Returns:
        An array of the declared shape.

    Raises:
        InvalidArgument: The dtype is unknown, the shape is invalid, or the content does not fit
            the shape.
    """
    enum = proto.dtype  # reading a field of a message is slow
    if enum not in _FIELDS:
        raise _unparsable(name, f"dtype {enum} is not supported")
    shape, content = _shape(name, proto), proto.tensor_content
    if content:
        values = _from_content(name, enum, content, math.prod(shape))
    else:
        values = _from_field(name, enum, getattr(proto, _FIELDS[enum]))
    if not values.size or values.size != math.prod(shape):
        values = _fitted(name, values, shape, fills=not content)
    return values.reshape(shape)


def encode(array: Any, proto: Message, *, content: bool = False) -> Message:
    """Writes an array to an empty TensorProto, and returns that.

    Args:
        array: An array, or anything that `numpy.asarray` takes; strings as str or bytes.
        proto: An empty tensor.
        content: Whether to send numbers as raw bytes, which is faster for both ends. Defaults to
            the typed fields, which clients of TensorFlow Serving read in responses.

    Raises:
        TypeError: No tensor dtype holds the array.
    """
    original, array = array, np.asarray(array)
    if array.dtype.kind in "SU" and not isinstance(original, np.ndarray):
        array = np.asarray(original, object)  # NumPy's strings lose trailing zeros
    enum = pb.DT_STRING if array.dtype.kind in "OSU" else _ENUMS.get(array.dtype)
    if enum is None:
        raise TypeError(f"No tensor holds an array of dtype {array.dtype}.")
    proto.dtype = enum
    for dim in array.shape:
        proto.tensor_shape.dim.add(size=dim)
    if enum == pb.DT_STRING:
        proto.string_val.extend(_to_bytes(value) for value in array.ravel().tolist())
    elif content:
        proto.tensor_content = array.tobytes()
    elif _FIELDS[enum] == "float8_val":
        proto.float8_val = array.tobytes()
    else:
        getattr(proto, _FIELDS[enum]).extend(array.ravel().view(_STORED[enum]).tolist())
    return proto


def _shape(name: str, proto: Any) -> tuple[int, ...]:
    content = proto.tensor_shape.SerializeToString()
    parse_shape = _known_shape if len(content) <= _MAX_CACHED_SHAPE else _read_shape
    shape = parse_shape(content)
    if isinstance(shape, str):
        raise _unparsable(name, shape)
    return shape


def _read_shape(content: bytes) -> tuple[int, ...] | str:
    """Returns the axes of a TensorShapeProto, or an error message."""
    proto = pb.TensorShapeProto.FromString(content)
    if proto.unknown_rank:
        return "a value must have a shape. Received: unknown rank"
    shape = tuple([dim.size for dim in proto.dim])
    if len(shape) > MAX_RANK:
        return f"at most {MAX_RANK} axes. Received: {len(shape)}"
    if shape and min(shape) < 0:
        return f"a shape has no negative axis. Received: {shape}"
    return shape


# A look-up takes less than half of the time of reading the axes of a message.
_known_shape = functools.lru_cache(maxsize=4096)(_read_shape)


def _from_content(name: str, enum: int, content: bytes, size: int) -> np.ndarray:
    dtype = _DTYPES[enum]
    if enum == pb.DT_STRING:
        return _string_content(name, content, size)
    if len(content) % dtype.itemsize:
        raise _unparsable(
            name,
            f"tensor_content of dtype {dtype_name(enum)} must be a multiple of "
            f"{dtype.itemsize} bytes long. Received: {len(content)}",
        )
    if enum == pb.DT_BOOL:
        return np.frombuffer(content, np.uint8).astype(bool)
    return np.frombuffer(content, dtype)


def _string_content(name: str, content: bytes, count: int) -> np.ndarray:
    """Reads strings as TensorFlow packs them: all lengths as varints, then all bytes."""
    lengths: list[int] = []
    at = 0
    while len(lengths) < count:
        length = shift = 0
        while True:
            if at >= len(content) or shift > 28:
                raise _unparsable(name, f"tensor_content holds no {count} strings")
            byte, at = content[at], at + 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        lengths.append(length)
    if at + sum(lengths) != len(content):
        raise _unparsable(name, f"tensor_content does not end with its {count} strings")
    values = np.empty(count, object)
    for i, length in enumerate(lengths):
        values[i] = content[at : at + length]
        at += length
    return values


def _from_field(name: str, enum: int, field: Any) -> np.ndarray:
    dtype = _DTYPES[enum]
    if enum not in _CONVERTED:
        # `numpy.array` would first inspect every value.
        return np.fromiter(field, dtype, len(field))
    if _FIELDS[enum] == "float8_val":  # bytes
        return np.frombuffer(field, dtype)
    if dtype.kind == "c":
        if len(field) % 2:
            raise _unparsable(name, "a complex value needs its real and imaginary part")
        return np.fromiter(field, _STORED[enum], len(field)).view(dtype)
    wide = np.fromiter(field, np.int32, len(field))
    values = wide.astype(_STORED[enum])
    if (values.astype(np.int32) != wide).any():
        raise _unparsable(name, f"a value is outside {dtype_name(enum)}")
    return values.view(dtype)


def _fitted(name: str, values: np.ndarray, shape: tuple[int, ...], *, fills: bool) -> np.ndarray:
    """Fills or rejects values whose number differs from the shape's."""
    size = math.prod(shape)
    # Empty axes count as one: the model may create a tensor of the other axes.
    if math.prod(max(dim, 1) for dim in shape) > max(MAX_FILLED_ELEMENTS, values.size):
        raise _unparsable(name, f"shape {shape} needs {size} values. Received: {values.size}")
    if values.size > size or (values.size < size and not fills):
        raise _unparsable(name, f"shape {shape} has {size} values. Received: {values.size}")
    last = values[-1] if values.size else (b"" if values.dtype == object else 0)
    filled = np.full(size, last, values.dtype)
    filled[: values.size] = values
    return filled


def _unparsable(name: str, reason: str) -> ServingError:
    return InvalidArgument(f"tensor parsing error: {name}: {reason}")


def _to_bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    raise TypeError(f"A string tensor holds str or bytes. Received: {value!r}")
