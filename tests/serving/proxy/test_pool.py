"""A front computes on a fleet: here on this project's own server, in the same process."""

from __future__ import annotations

import socket
from collections.abc import Iterator
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
from serving.proxy.pool import BackendPool, RemoteModel, backend_addresses, remote_versions
from serving.runtimes.tensorflow.session import TensorFlowSession
from tests.serving.conftest import StartServer, wait_until
from tests.serving.exports import install
from tests.serving.stubs import ROWS
from tests.serving.traces import trace


@pytest.fixture(scope="module")
def remote(shared_address: str) -> Iterator[RemoteModel]:
    fleet = BackendPool([shared_address])
    yield RemoteModel(fleet, "tiny", 5)
    fleet.close()


def _nobody() -> str:
    """An address that nothing listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


def test_it_has_the_signatures_of_the_fleet(remote: RemoteModel, twofold: Path) -> None:
    local = TensorFlowSession(twofold)
    assert remote.definitions == local.definitions
    local.close()


def test_it_computes_what_the_fleet_computes(remote: RemoteModel, twofold: Path) -> None:
    local = TensorFlowSession(twofold)
    for outputs in (["click", "convert"], ["convert"]):
        found = remote.run("serving_default", ROWS, outputs, 5.0)
        expected = local.run("serving_default", ROWS, outputs, 5.0)
        assert list(found) == outputs
        for name in outputs:
            np.testing.assert_array_equal(found[name], expected[name])
    words = remote.run("pair", {"pair": np.float32([[1, 2]])}, ["words"], None)["words"]
    assert all(isinstance(word, bytes) for word in words.ravel())
    local.close()


def test_a_model_runs_on_it(remote: RemoteModel, tmp_path: Path) -> None:
    model = Model("front", 5, tmp_path, remote)
    assert model.context_names == {"user", "age", "history"}
    found = model.signature("serving_default").run(ROWS, ["click"], trace("Predict"))
    assert found["click"].shape == (2,)


def test_versions_are_those_that_the_fleet_has_available(shared_address: str) -> None:
    fleet = BackendPool([shared_address])
    assert remote_versions(fleet, "tiny") == [5]
    with pytest.raises(NotFound, match="Could not find any versions of model other"):
        remote_versions(fleet, "other")
    fleet.close()


def test_a_server_that_is_away_loads_or_is_silent_is_not_the_one_that_says_what_there_is(
    shared_address: str, tmp_path: Path, start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serving.proxy.pool._ASK_SECONDS", 1.0)
    (tmp_path / "tiny").mkdir()
    _, empty = start_server(tmp_path / "tiny")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        fleet = BackendPool([_nobody(), empty, address, shared_address])
        assert remote_versions(fleet, "tiny") == [5]
        assert RemoteModel(fleet, "tiny", 5).definitions
        fleet.close()


def test_errors_pass_with_their_code_and_words(remote: RemoteModel, shared_address: str) -> None:
    with pytest.raises(InvalidArgument, match="input size does not match signature"):
        remote.run("pair", {"other": np.float32([1])}, ["total"], 5.0)
    with pytest.raises(NotFound, match=r"Specific\(tiny, 7\)"):
        RemoteModel(BackendPool([shared_address]), "tiny", 7)


def test_the_callers_deadline_is_the_fleets(remote: RemoteModel) -> None:
    with pytest.raises(DeadlineExceeded):
        remote.run("wait", {"seconds": np.float32([2])}, ["turns"], 0.1)
    with pytest.raises(DeadlineExceeded):
        remote.run("wait", {"seconds": np.float32([0])}, ["turns"], 0.0)


def test_a_server_that_is_away_hands_over_to_the_next(shared_address: str) -> None:
    fleet = BackendPool([_nobody(), shared_address])
    remote = RemoteModel(fleet, "tiny", 5)
    for _ in range(3):
        found = remote.run("pair", {"pair": np.float32([[1, 2]])}, ["total"], 5.0)
        np.testing.assert_array_equal(found["total"], [3])
    fleet.close()


def test_a_server_that_has_no_such_version_hands_over_to_the_next(
    shared_address: str, tmp_path: Path, twofold: Path, start_server: StartServer
) -> None:
    install(twofold, tmp_path / "tiny", 9)
    _, newer = start_server(tmp_path / "tiny")
    fleet = BackendPool([shared_address, newer])
    remote = RemoteModel(fleet, "tiny", 9)
    for _ in range(3):
        remote.run("pair", {"pair": np.float32([[1, 2]])}, ["total"], 5.0)
    fleet.close()
    with pytest.raises(NotFound, match=r"Specific\(tiny, 7\)"):
        RemoteModel(BackendPool([_nobody(), shared_address, newer]), "tiny", 7)


def test_a_fleet_that_is_away_is_unavailable() -> None:
    with pytest.raises(Unavailable, match="No server of the backend answers"):
        RemoteModel(BackendPool([_nobody(), _nobody()]), "tiny", 5)


@pytest.mark.parametrize(
    "code", [grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED]
)
def test_a_server_that_refuses_the_front_is_as_one_that_is_away(
    shared_address: str, code: grpc.StatusCode
) -> None:
    """Who asks the front has no part in it, and may have shown a good token himself."""
    refuses = grpc.unary_unary_rpc_method_handler(
        lambda request, context: context.abort(code, "a token is needed")
    )
    server = grpc.server(ThreadPoolExecutor(1))
    names = dict.fromkeys(("GetModelMetadata", "Predict"), refuses)
    service = "tensorflow.serving.PredictionService"
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service, names)])
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    words = f"the last one, {address}, refuses this server, .*: a token is needed"
    with pytest.raises(Unavailable, match=words):
        RemoteModel(BackendPool([address]), "tiny", 5)
    fleet = BackendPool([address, shared_address])
    remote = RemoteModel(fleet, "tiny", 5)
    for _ in range(2):
        remote.run("pair", {"pair": np.float32([[1, 2]])}, ["total"], 5.0)
    fleet.close()
    server.stop(None)


def test_a_version_that_the_fleet_dropped_is_gone(
    base_path: Path, threefold: Path, start_server: StartServer
) -> None:
    server, address = start_server(base_path)
    fleet = BackendPool([address])
    remote = RemoteModel(fleet, "tiny", 5)
    install(threefold, base_path, 6)
    wait_until(lambda: server.manager.models["tiny"].current == 6)
    with pytest.raises(VersionGone, match=r"Specific\(tiny, 5\)"):
        remote.run("pair", {"pair": np.float32([[1, 2]])}, ["total"], 5.0)
    fleet.close()


def test_a_backend_is_a_list_of_addresses() -> None:
    assert backend_addresses("grpc://a:1") == ("a:1",)
    assert backend_addresses("grpc://a:1,[::1]:2") == ("a:1", "[::1]:2")
    assert backend_addresses("grpcs://a:1,b:2") == ("a:1", "b:2")
    for wrong in ("", "a:1", "grpc://", "grpc://a", "grpc://a:1,", "grpc://:1", "http://a:1"):
        with pytest.raises(ValueError, match="grpc://HOST:PORT"):
            backend_addresses(wrong)
