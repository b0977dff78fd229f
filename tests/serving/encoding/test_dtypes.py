"""Tensors of every dtype pass through a model, alone and in batches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import types_pb2

from serving.config.server_config import ServerConfig
from serving.encoding import codec
from serving.encoding.codec import encode, numpy_dtype
from serving.server.server import create_server
from tests.serving.stubs import predict, read_by_tensorflow, send

DTYPES = [
    tf.as_dtype(enum).name
    for name, enum in types_pb2.DataType.items()
    if not name.endswith("_REF") and numpy_dtype(enum) is not None
]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with a signature of each dtype that returns its input."""
    path = tmp_path_factory.mktemp("dtypes") / "types" / "1"
    signatures = {
        name: tf.function(lambda x: {"y": tf.identity(x)}).get_concrete_function(
            tf.TensorSpec((None,), tf.as_dtype(name), "x")
        )
        for name in DTYPES
    }
    tf.saved_model.save(tf.Module(), str(path), signatures=signatures)
    return path.parent


@pytest.fixture(scope="module", params=[False, True], ids=["alone", "batched"])
def address(request: pytest.FixtureRequest, exported: Path) -> Iterator[str]:
    config = ServerConfig(str(exported), port=0, enable_batching=request.param)
    server, port = create_server(config)
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop()


def _values(name: str) -> np.ndarray:
    if name == "string":
        return np.array([b"a\0", b"", b"\xff"], object)
    return np.array([1, 0, 5]).astype(tf.as_dtype(name).as_numpy_dtype)


def test_dtypes_are_tensorflows() -> None:
    for name in DTYPES:
        dtype = tf.as_dtype(name)
        assert codec.numpy_dtype(dtype.as_datatype_enum) == np.dtype(dtype.as_numpy_dtype)
        assert codec.dtype_name(dtype.as_datatype_enum) == name


def test_no_other_dtype_can_be_sent() -> None:
    """Resources and variants stay in a process; TensorProto has no field for narrower numbers."""
    known = {tf.as_dtype(name).as_datatype_enum for name in DTYPES}
    others = {
        name
        for name, enum in types_pb2.DataType.items()
        if not name.endswith("_REF") and enum not in known
    }
    narrow = {"DT_INT2", "DT_UINT2", "DT_FLOAT4_E2M1FN"}
    assert others - narrow == {"DT_INVALID", "DT_RESOURCE", "DT_VARIANT"}


@pytest.mark.parametrize("name", DTYPES)
def test_an_output_has_the_dtype_of_its_signature(address: str, name: str) -> None:
    """Sent in the fields of its type, and as bytes."""
    values = _values(name)
    for content in (False, True):
        request = predict("types", inputs={}, signature_name=name)
        encode(values, request.inputs["x"], content=content)
        with grpc.insecure_channel(address) as channel:
            answer = send(channel, request).outputs["y"]
        assert answer.dtype == tf.as_dtype(name).as_datatype_enum
        found = read_by_tensorflow(answer)
        assert found.dtype == values.dtype
        np.testing.assert_array_equal(found, values)
