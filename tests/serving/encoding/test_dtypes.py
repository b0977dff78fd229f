"""Tensors of every dtype that travels go through a model, alone and in batches."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import types_pb2

from serving.client import Client
from serving.config.server_config import ServerConfig
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
    """Version 1 of `types`: a signature of each dtype gives what it takes."""
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


def test_these_are_all_that_tensorflow_sends() -> None:
    """Resources and variants live in one process; of the narrower ones no field has values."""
    known = {tf.as_dtype(name).as_datatype_enum for name in DTYPES}
    others = {
        name
        for name, enum in types_pb2.DataType.items()
        if not name.endswith("_REF") and enum not in known
    }
    narrow = {"DT_INT2", "DT_UINT2", "DT_FLOAT4_E2M1FN"}
    assert others - narrow == {"DT_INVALID", "DT_RESOURCE", "DT_VARIANT"}


@pytest.mark.parametrize("content", [False, True], ids=["fields", "content"])
@pytest.mark.parametrize("name", DTYPES)
def test_what_a_model_gives_is_of_its_dtype(address: str, name: str, content: bool) -> None:
    values = _values(name)
    request = predict("types", inputs={}, signature_name=name)
    request.inputs["x"].CopyFrom(encode(values, content=content))
    with grpc.insecure_channel(address) as channel:
        answer = send(channel, request).outputs["y"]
    assert answer.dtype == tf.as_dtype(name).as_datatype_enum
    found = read_by_tensorflow(answer)
    assert found.dtype == values.dtype
    np.testing.assert_array_equal(found, values)


@pytest.mark.parametrize("name", ["qint8", "int4", "float8_e5m2", "bfloat16"])
def test_callers_at_once_get_their_own(address: str, name: str) -> None:
    sent = [np.full(n, n).astype(tf.as_dtype(name).as_numpy_dtype) for n in (1, 2, 3, 4) * 5]
    with Client(address, model="types", timeout=30.0) as client, ThreadPoolExecutor(8) as pool:

        def ask(values: np.ndarray) -> np.ndarray:
            return client.predict({"x": values}, signature_name=name)["y"]

        for values, found in zip(sent, pool.map(ask, sent), strict=True):
            np.testing.assert_array_equal(found, values)
