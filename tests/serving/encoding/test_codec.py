"""Tensors of every dtype survive both encodings; content that does not fit its shape never."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2, types_pb2

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
    proto = tensor_pb2.TensorProto(dtype=dtype, **fields)
    for dim in shape:
        proto.tensor_shape.dim.add(size=dim)
    return proto


@pytest.mark.parametrize("content", [False, True], ids=["fields", "content"])
@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_numbers_survive(dtype: np.dtype, content: bool) -> None:
    array = _example(dtype)
    proto = encode(array, content=content)
    decoded = decode("x", proto)
    assert decoded.dtype == dtype
    np.testing.assert_array_equal(decoded, array)
    np.testing.assert_array_equal(read_by_tensorflow(proto), array)


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_what_tensorflow_writes_is_read(dtype: np.dtype) -> None:
    array = _example(dtype)
    np.testing.assert_array_equal(decode("x", tf.make_tensor_proto(array)), array)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (5, 1)], ids=str)
@pytest.mark.parametrize("content", [False, True], ids=["fields", "content"])
def test_shapes_survive(shape: tuple[int, ...], content: bool) -> None:
    array = np.full(shape, 7, np.int64)
    np.testing.assert_array_equal(decode("x", encode(array, content=content)), array)


def test_strings_survive_as_bytes() -> None:
    array = np.array([["a", "", "ä"], ["b\0", "c" * 300, "d"]], object)
    decoded = decode("x", encode(array))
    assert decoded.tolist() == [[value.encode() for value in row] for row in array.tolist()]
    assert decode("x", encode(np.array(["ab", "c"]))).tolist() == [b"ab", b"c"]


@pytest.mark.parametrize("values", [[[b"a\0", b"\0\0"]], [["a\0", "\0\0"]]], ids=["bytes", "str"])
def test_strings_of_a_list_keep_the_zeros_at_their_ends(values: list[list[object]]) -> None:
    proto = encode(values)
    assert decode("x", proto).tolist() == [[b"a\0", b"\0\0"]]
    assert list(proto.string_val) == list(tf.make_tensor_proto(values).string_val)
    assert decode("x", encode(b"a\0")).item() == b"a\0"


def test_strings_as_packed_content() -> None:
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


@pytest.mark.parametrize(
    ("proto", "words"),
    [
        pytest.param(_proto(0), "dtype 0 is not supported", id="no-dtype"),
        pytest.param(_proto(types_pb2.DT_VARIANT), "is not supported", id="variant"),
        pytest.param(_proto(99), "dtype 99 is not supported", id="unheard-of-dtype"),
        pytest.param(_proto(shape=(-1,)), "no negative axis", id="negative-axis"),
        pytest.param(_proto(shape=(2, -(2**63))), "no negative axis", id="most-negative-axis"),
        pytest.param(_proto(shape=(1,) * 33), "at most 32 axes", id="too-many-axes"),
        pytest.param(_proto(shape=(2**40,)), "Received: 0", id="huge-and-empty"),
        pytest.param(_proto(shape=(2**62, 2**62), float_val=[1]), "Received: 1", id="overflow"),
        pytest.param(_proto(shape=(0, 2**40)), "Received: 0", id="huge-beside-an-empty-axis"),
        pytest.param(
            _proto(shape=(MAX_FILLED_ELEMENTS + 1,), float_val=[1]), "Received: 1", id="just-huge"
        ),
        pytest.param(
            _proto(types_pb2.DT_STRING, (2**40,), tensor_content=b"\x00"), "no 1099511627776",
            id="huge-strings",
        ),
        pytest.param(_proto(shape=(2,), float_val=[1, 2, 3]), "Received: 3", id="too-many"),
        pytest.param(_proto(shape=(), float_val=[1, 2]), "Received: 2", id="too-many-for-scalar"),
        pytest.param(_proto(shape=(2,), tensor_content=bytes(4)), "Received: 1", id="too-short"),
        pytest.param(_proto(shape=(2,), tensor_content=bytes(12)), "Received: 3", id="too-long"),
        pytest.param(_proto(shape=(2,), tensor_content=bytes(7)), "multiple of 4", id="odd-bytes"),
        pytest.param(
            _proto(types_pb2.DT_INT8, (1,), int_val=[300]), "outside int8", id="int8-overflow"
        ),
        pytest.param(
            _proto(types_pb2.DT_UINT8, (1,), int_val=[-1]), "outside uint8", id="uint8-negative"
        ),
        pytest.param(
            _proto(types_pb2.DT_HALF, (1,), half_val=[70000]), "outside float16", id="half-bits"
        ),
        pytest.param(
            _proto(types_pb2.DT_COMPLEX64, (1,), scomplex_val=[1]), "imaginary", id="half-complex"
        ),
        pytest.param(
            _proto(types_pb2.DT_STRING, (2,), tensor_content=b"\x05\x05abc"), "does not end",
            id="strings-cut",
        ),
        pytest.param(
            _proto(types_pb2.DT_STRING, (1,), tensor_content=b"\xff" * 9), "holds no 1 strings",
            id="endless-length",
        ),
        pytest.param(
            tensor_pb2.TensorProto(dtype=1, tensor_shape={"unknown_rank": True}), "unknown rank",
            id="unknown-rank",
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_an_invalid_argument(
    proto: tensor_pb2.TensorProto, words: str
) -> None:
    with pytest.raises(InvalidArgument, match=words) as raised:
        decode("price", proto)
    assert str(raised.value).startswith("tensor parsing error: price: ")


def test_arrays_that_no_tensor_holds() -> None:
    with pytest.raises(TypeError, match="datetime64"):
        encode(np.array(["2020-01-01"], "datetime64[D]"))
    with pytest.raises(TypeError, match="str or bytes"):
        encode(np.array([b"a", 3], object))
