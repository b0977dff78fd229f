"""A front computes on a fleet: here on this project's own server, in the same process."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from serving.call import Call
from serving.errors import DeadlineExceeded, InvalidArgument, NotFound, Unavailable
from serving.model import Model
from serving.runtimes.remote import Remote, backend_addresses, remote_versions
from serving.runtimes.tensorflow_session import TensorFlowSession
from tests.serving.conftest import StartServer
from tests.serving.exports import install
from tests.serving.stubs import ROWS


@pytest.fixture(scope="module")
def remote(shared_address: str) -> Iterator[Remote]:
    remote = Remote([shared_address], "tiny", 5)
    yield remote
    remote.close()


def _nobody() -> str:
    """An address that nothing listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


def test_it_has_the_signatures_of_the_fleet(remote: Remote, twofold: Path) -> None:
    local = TensorFlowSession(twofold)
    assert remote.definitions == local.definitions
    local.close()


def test_it_computes_what_the_fleet_computes(remote: Remote, twofold: Path) -> None:
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


def test_a_model_runs_on_it(remote: Remote, tmp_path: Path) -> None:
    model = Model("front", 5, tmp_path, remote)
    assert model.context_names == {"user", "age", "history"}
    found = model.signature("serving_default").run(ROWS, ["click"], Call("Predict"))
    assert found["click"].shape == (2,)


def test_versions_are_those_that_the_fleet_has_available(shared_address: str) -> None:
    assert remote_versions([shared_address], "tiny") == [5]
    with pytest.raises(NotFound, match="Could not find any versions of model other"):
        remote_versions([shared_address], "other")


def test_errors_pass_with_their_code_and_words(remote: Remote, shared_address: str) -> None:
    with pytest.raises(InvalidArgument, match="input size does not match signature"):
        remote.run("pair", {"other": np.float32([1])}, ["total"], 5.0)
    with pytest.raises(NotFound, match=r"Specific\(tiny, 7\)"):
        Remote([shared_address], "tiny", 7)


def test_the_callers_deadline_is_the_fleets(remote: Remote) -> None:
    with pytest.raises(DeadlineExceeded):
        remote.run("wait", {"seconds": np.float32([2])}, ["turns"], 0.1)
    with pytest.raises(DeadlineExceeded):
        remote.run("wait", {"seconds": np.float32([0])}, ["turns"], 0.0)


def test_a_server_that_is_away_hands_over_to_the_next(shared_address: str) -> None:
    remote = Remote([_nobody(), shared_address], "tiny", 5)
    for _ in range(3):
        found = remote.run("pair", {"pair": np.float32([[1, 2]])}, ["total"], 5.0)
        np.testing.assert_array_equal(found["total"], [3])
    remote.close()


def test_a_server_that_has_no_such_version_hands_over_to_the_next(
    shared_address: str, tmp_path: Path, twofold: Path, start_server: StartServer
) -> None:
    install(twofold, tmp_path / "tiny", 9)
    _, newer = start_server(tmp_path / "tiny")
    remote = Remote([shared_address, newer], "tiny", 9)
    for _ in range(3):
        remote.run("pair", {"pair": np.float32([[1, 2]])}, ["total"], 5.0)
    remote.close()
    with pytest.raises(NotFound, match=r"Specific\(tiny, 7\)"):
        Remote([_nobody(), shared_address, newer], "tiny", 7)


def test_a_fleet_that_is_away_is_unavailable() -> None:
    with pytest.raises(Unavailable, match="No server of the backend answers"):
        Remote([_nobody(), _nobody()], "tiny", 5)


def test_a_backend_is_a_list_of_addresses() -> None:
    assert backend_addresses("grpc://a:1") == ("a:1",)
    assert backend_addresses("grpc://a:1,[::1]:2") == ("a:1", "[::1]:2")
    for wrong in ("", "a:1", "grpc://", "grpc://a", "grpc://a:1,", "grpc://:1", "http://a:1"):
        with pytest.raises(ValueError, match="grpc://HOST:PORT"):
            backend_addresses(wrong)
