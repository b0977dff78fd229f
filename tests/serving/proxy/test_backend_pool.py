"""Calls to a backend: here this project's own servers, in the same process."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import numpy as np
import pytest

from serving.common.errors import (
    DeadlineExceeded,
    InvalidArgument,
    NotFound,
    Unavailable,
    VersionGone,
)
from serving.models.model import Model
from serving.proxy.backend_pool import BackendPool, backend_addresses
from serving.proxy.backend_source import BackendSource
from serving.proxy.remote_model import RemoteModel
from serving.runtimes.tensorflow.session import TensorFlowSession
from tests.serving.commands import free_port
from tests.serving.conftest import StartServer
from tests.serving.exports import install
from tests.serving.stubs import ROWS

Connect = Callable[..., BackendPool]
PAIR = {"pair": np.float32([[1, 2]])}


@pytest.fixture
def connect() -> Iterator[Connect]:
    pools: list[BackendPool] = []

    def make(*addresses: str) -> BackendPool:
        pools.append(BackendPool(addresses))
        return pools[-1]

    yield make
    for pool in pools:
        pool.close()


@pytest.fixture
def remote(connect: Connect, shared_address: str) -> RemoteModel:
    return RemoteModel(connect(shared_address), "tiny", 5)


def _down() -> str:
    return f"127.0.0.1:{free_port()}"


def test_remote_model_equals_the_local_one(
    remote: RemoteModel, twofold: Path, tmp_path: Path
) -> None:
    local = TensorFlowSession(twofold)
    assert remote.definitions == local.definitions
    for outputs in (["click", "convert"], ["convert"]):
        found = remote.run("serving_default", ROWS, outputs, 5.0)
        expected = local.run("serving_default", ROWS, outputs, 5.0)
        assert list(found) == outputs
        for name in outputs:
            np.testing.assert_array_equal(found[name], expected[name])
    words = remote.run("pair", PAIR, ["words"], None)["words"]
    assert all(isinstance(word, bytes) for word in words.ravel())
    assert Model("tiny", 5, tmp_path, remote).context_names == {"user", "age", "history"}
    local.close()


def test_errors_keep_code_and_message(connect: Connect, remote: RemoteModel) -> None:
    with pytest.raises(InvalidArgument, match="input size does not match signature"):
        remote.run("pair", {"other": np.float32([1])}, ["total"], 5.0)
    with pytest.raises(DeadlineExceeded):
        remote.run("wait", {"seconds": np.float32([2])}, ["turns"], 0.1)
    with pytest.raises(DeadlineExceeded):
        remote.run("wait", {"seconds": np.float32([0])}, ["turns"], 0.0)
    with pytest.raises(Unavailable, match="No server of the backend answers"):
        RemoteModel(connect(_down(), _down()), "tiny", 5)


def test_versions_come_from_the_first_server_that_responds(
    connect: Connect,
    shared_address: str,
    tmp_path: Path,
    start_server: StartServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("serving.proxy.backend_pool._QUERY_SECONDS", 1.0)
    (tmp_path / "tiny").mkdir()
    _, loading = start_server(tmp_path / "tiny")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        pool = connect(_down(), loading, address, shared_address)
        assert BackendSource(pool).find("tiny", Path("/m")) == {5: Path("/m/5")}
        assert RemoteModel(pool, "tiny", 5).definitions
    with pytest.raises(NotFound, match="Could not find any versions of model other"):
        BackendSource(connect(shared_address)).find("other", Path("/m"))


def test_the_next_server_takes_over(
    connect: Connect,
    shared_address: str,
    tmp_path: Path,
    twofold: Path,
    start_server: StartServer,
) -> None:
    """For a server that is down, and for one that lacks the version."""
    install(twofold, tmp_path / "tiny", 9)
    _, newer = start_server(tmp_path / "tiny")
    pool = connect(_down(), shared_address, newer)
    remote = RemoteModel(pool, "tiny", 9)
    for _ in range(3):
        np.testing.assert_array_equal(remote.run("pair", PAIR, ["total"], 5.0)["total"], [3])
    with pytest.raises(NotFound, match=r"Specific\(tiny, 7\)"):
        RemoteModel(pool, "tiny", 7)
    gone = RemoteModel(pool, "tiny", 9)
    gone._spec.version.value = 7
    with pytest.raises(VersionGone, match=r"Specific\(tiny, 7\)"):
        gone.run("pair", PAIR, ["total"], 5.0)


@pytest.mark.parametrize(
    "code", [grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED]
)
def test_server_that_rejects_the_proxy_counts_as_down(
    connect: Connect, shared_address: str, code: grpc.StatusCode
) -> None:
    """A client of the proxy is not to blame: its own token may be valid."""
    reject = grpc.unary_unary_rpc_method_handler(
        lambda request, context: context.abort(code, "a token is needed")
    )
    server = grpc.server(ThreadPoolExecutor(1))
    names = dict.fromkeys(("GetModelMetadata", "Predict"), reject)
    service = "tensorflow.serving.PredictionService"
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service, names)])
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    words = f"the last one, {address}, rejects this server; .*: a token is needed"
    with pytest.raises(Unavailable, match=words):
        RemoteModel(connect(address), "tiny", 5)
    remote = RemoteModel(connect(address, shared_address), "tiny", 5)
    for _ in range(2):
        remote.run("pair", PAIR, ["total"], 5.0)
    server.stop(None)


def test_backend_addresses() -> None:
    assert backend_addresses("grpc://a:1") == ("a:1",)
    assert backend_addresses("grpc://a:1,[::1]:2") == ("a:1", "[::1]:2")
    assert backend_addresses("grpcs://a:1,b:2") == ("a:1", "b:2")
    for wrong in ("", "a:1", "grpc://", "grpc://a", "grpc://a:1,", "grpc://:1", "http://a:1"):
        with pytest.raises(ValueError, match="grpc://HOST:PORT"):
            backend_addresses(wrong)
