"""Tensors of every dtype survive both encodings; invalid content is rejected."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import types_pb2
from tensorflow.core.framework.tensor_pb2 import TensorProto

from serving.common.errors import InvalidArgument
from serving.encoding import codec
from serving.encoding.codec import MAX_FILLED_ELEMENTS, decode, encode
from tests.serving.stubs import read_by_tensorflow

NAMES = """
HALF BFLOAT16 FLOAT DOUBLE INT8 INT16 INT32 INT64 UINT8 UINT16 UINT32 UINT64 BOOL COMPLEX64
COMPLEX128 QINT8 QUINT8 QINT16 QUINT16 QINT32 INT4 UINT4 FLOAT8_E5M2 FLOAT8_E4M3FN
FLOAT8_E4M3FNUZ FLOAT8_E4M3B11FNUZ FLOAT8_E5M2FNUZ
"""
NUMBERS = [
    np.dtype(tf.as_dtype(types_pb2.DataType.Value(f"DT_{name}")).as_numpy_dtype)
    for name in NAMES.split()
]


def _example(dtype: np.dtype) -> np.ndarray:
    values = np.array([0, 1, 3, 7, 2, 6] if dtype.itemsize == 1 else [0, 1, 3, 7, 11, 100])
    values = values.reshape(2, 3)
    if dtype.kind == "c":
        values = values + 5j
    return values.astype(dtype)


def _proto(dtype: int = types_pb2.DT_FLOAT, shape: tuple[int, ...] = (), **fields: object):
    proto = TensorProto(dtype=dtype, **fields)
    for dim in shape:
        proto.tensor_shape.dim.add(size=dim)
    return proto


@pytest.mark.parametrize("content", [False, True], ids=["fields", "content"])
@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_decoded_numbers_equal_the_encoded_ones(dtype: np.dtype, content: bool) -> None:
    array = _example(dtype)
    proto = encode(array, TensorProto(), content=content)
    decoded = decode("x", proto)
    assert decoded.dtype == dtype
    np.testing.assert_array_equal(decoded, array)
    np.testing.assert_array_equal(read_by_tensorflow(proto), array)
    np.testing.assert_array_equal(decode("x", tf.make_tensor_proto(array)), array)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (5, 1)], ids=str)
@pytest.mark.parametrize("content", [False, True], ids=["fields", "content"])
def test_decoded_shapes_equal_the_encoded_ones(shape: tuple[int, ...], content: bool) -> None:
    array = np.full(shape, 7, np.int64)
    np.testing.assert_array_equal(decode("x", encode(array, TensorProto(), content=content)), array)


def test_strings_are_decoded_as_bytes() -> None:
    array = np.array([["a", "", "ä"], ["b\0", "c" * 300, "d"]], object)
    decoded = decode("x", encode(array, TensorProto()))
    assert decoded.tolist() == [[value.encode() for value in row] for row in array.tolist()]
    assert decode("x", encode(np.array(["ab", "c"]), TensorProto())).tolist() == [
        b"ab",
        b"c",
    ]


@pytest.mark.parametrize("values", [[[b"a\0", b"\0\0"]], [["a\0", "\0\0"]]], ids=["bytes", "str"])
def test_strings_keep_trailing_zeros(values: list[list[object]]) -> None:
    proto = encode(values, TensorProto())
    assert decode("x", proto).tolist() == [[b"a\0", b"\0\0"]]
    assert list(proto.string_val) == list(tf.make_tensor_proto(values).string_val)
    assert decode("x", encode(b"a\0", TensorProto())).item() == b"a\0"


def test_packed_strings_are_read() -> None:
    values = [b"", b"a" * 300, b"xyz"]
    content = b"\x00" + b"\xac\x02" + b"\x03" + b"".join(values)
    proto = _proto(types_pb2.DT_STRING, (3,), tensor_content=content)
    assert decode("x", proto).tolist() == values


def test_the_last_value_fills_the_shape() -> None:
    short = _proto(shape=(5,), float_val=[1.0, 2.0])
    np.testing.assert_array_equal(decode("x", short), np.float32([1, 2, 2, 2, 2]))
    np.testing.assert_array_equal(decode("x", _proto(shape=(3,))), np.zeros(3, np.float32))
    assert decode("x", _proto(types_pb2.DT_STRING, (2,))).tolist() == [b"", b""]


def test_every_dtype_has_a_name() -> None:
    assert codec.dtype_name(types_pb2.DT_STRING) == "string"
    assert codec.dtype_name(types_pb2.DT_FLOAT) == "float32"
    assert codec.dtype_name(types_pb2.DT_RESOURCE) == f"DataType {types_pb2.DT_RESOURCE}"


INVALID = {
    "no dtype": (_proto(0), "dtype 0 is not supported"),
    "variant": (_proto(types_pb2.DT_VARIANT), "is not supported"),
    "unknown dtype": (_proto(99), "dtype 99 is not supported"),
    "negative axis": (_proto(shape=(-1,)), "no negative axis"),
    "most negative axis": (_proto(shape=(2, -(2**63))), "no negative axis"),
    "too many axes": (_proto(shape=(1,) * 33), "at most 32 axes"),
    "huge and empty": (_proto(shape=(2**40,)), "Received: 0"),
    "overflow": (_proto(shape=(2**62, 2**62), float_val=[1]), "Received: 1"),
    "huge beside an empty axis": (_proto(shape=(0, 2**40)), "Received: 0"),
    "just too large": (_proto(shape=(MAX_FILLED_ELEMENTS + 1,), float_val=[1]), "Received: 1"),
    "huge strings": (
        _proto(types_pb2.DT_STRING, (2**40,), tensor_content=b"\x00"), "no 1099511627776",
    ),
    "too many": (_proto(shape=(2,), float_val=[1, 2, 3]), "Received: 3"),
    "too many for a scalar": (_proto(shape=(), float_val=[1, 2]), "Received: 2"),
    "too short": (_proto(shape=(2,), tensor_content=bytes(4)), "Received: 1"),
    "too long": (_proto(shape=(2,), tensor_content=bytes(12)), "Received: 3"),
    "odd bytes": (_proto(shape=(2,), tensor_content=bytes(7)), "multiple of 4"),
    "int8 overflow": (_proto(types_pb2.DT_INT8, (1,), int_val=[300]), "outside int8"),
    "uint8 negative": (_proto(types_pb2.DT_UINT8, (1,), int_val=[-1]), "outside uint8"),
    "half bits": (_proto(types_pb2.DT_HALF, (1,), half_val=[70000]), "outside float16"),
    "half a complex": (_proto(types_pb2.DT_COMPLEX64, (1,), scomplex_val=[1]), "imaginary"),
    "cut strings": (
        _proto(types_pb2.DT_STRING, (2,), tensor_content=b"\x05\x05abc"), "does not end",
    ),
    "endless length": (
        _proto(types_pb2.DT_STRING, (1,), tensor_content=b"\xff" * 9), "holds no 1 strings",
    ),
    "unknown rank": (
        TensorProto(dtype=1, tensor_shape={"unknown_rank": True}), "unknown rank",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", INVALID)
def test_an_invalid_tensor_is_an_invalid_argument(case: str) -> None:
    proto, words = INVALID[case]
    with pytest.raises(InvalidArgument, match=words) as raised:
        decode("price", proto)
    assert str(raised.value).startswith("tensor parsing error: price: ")


def test_unknown_dtypes_are_rejected() -> None:
    with pytest.raises(TypeError, match="datetime64"):
        encode(np.array(["2020-01-01"], "datetime64[D]"), TensorProto())
    with pytest.raises(TypeError, match="str or bytes"):
        encode(np.array([b"a", 3], object), TensorProto())
