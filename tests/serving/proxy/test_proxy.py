"""A front and its fleet: whose versions it has, and what it says where the fleet has them not."""

from __future__ import annotations

import contextlib
import json
import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from serving.common.errors import InvalidArgument, NotFound
from serving.config.server_config import ServerConfig
from serving.encoding.codec import decode
from serving.server.server import create_server
from tests.serving.certificates import make_authority, make_certificate, needs_openssl
from tests.serving.commands import free_port
from tests.serving.conftest import StartServer, wait_until
from tests.serving.exports import install
from tests.serving.stubs import predict, send

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
SPECIFIC = "model_version_policy { specific { versions: 5 } }"
LABEL = 'version_labels { key: "stable" value: 5 }'


@pytest.fixture
def moved(
    tmp_path: Path, base_path: Path, threefold: Path, start_server: StartServer
) -> Callable[..., str]:
    """A front that found version 5, does not poll, and whose fleet went on to version 6 since."""

    def start(policy: str = "", **options: object) -> str:
        fleet, backend = start_server(base_path)
        entry = f'name: "tiny" base_path: "/remote" model_platform: "tensorflow" {policy}'
        models = tmp_path / "models.config"
        models.write_text(f"model_config_list {{ config {{ {entry} }} }}")
        _, address = start_server(
            "", backend=f"grpc://{backend}", model_config_file=str(models),
            file_system_poll_wait_seconds=0.0, **options,
        )  # fmt: skip
        with grpc.insecure_channel(address) as channel:
            assert _answer(channel) == (5, 105.0)
        install(threefold, base_path, 6)
        wait_until(lambda: fleet.manager.models["tiny"].current == 6)
        return address

    return start


def _answer(channel: grpc.Channel, **spec: Any) -> tuple[int, float]:
    """The version that an answer names, and the score that tells which one computed it."""
    answer = send(channel, predict(**spec))
    return answer.model_spec.version.value, float(decode("", answer.outputs["click"])[0])


def _code(channel: grpc.Channel, **spec: Any) -> str:
    with pytest.raises(grpc.RpcError) as raised:
        send(channel, predict(**spec))
    return str(raised.value.code().name)


@pytest.mark.parametrize("batching", [False, True], ids=["alone", "in batches"])
def test_who_names_no_version_is_answered_by_the_next_under_its_own_number(
    moved: Callable[..., str], batching: bool
) -> None:
    with grpc.insecure_channel(moved(enable_batching=batching)) as channel:
        assert _answer(channel) == (6, 106.5)
        assert _answer(channel, version=6) == (6, 106.5)
        assert _code(channel, version=5) == "NOT_FOUND"


def test_who_names_a_version_is_answered_by_no_other(moved: Callable[..., str]) -> None:
    with grpc.insecure_channel(moved(LABEL)) as channel:
        assert _code(channel, version=5) == "NOT_FOUND"
        assert _code(channel, version_label="stable") == "NOT_FOUND"
        assert _answer(channel) == (6, 106.5)


def test_the_policy_specific_is_answered_by_no_other(moved: Callable[..., str]) -> None:
    with grpc.insecure_channel(moved(SPECIFIC)) as channel:
        assert [_code(channel), _code(channel)] == ["NOT_FOUND", "NOT_FOUND"]
        assert _code(channel, version=5) == "NOT_FOUND"


@pytest.mark.parametrize("poll", [0.05, 0.0], ids=["polls", "looks once"])
def test_it_is_ready_while_its_fleet_answers(
    base_path: Path, start_server: StartServer, monkeypatch: pytest.MonkeyPatch, poll: float
) -> None:
    monkeypatch.setattr("serving.models.manager._RETRY_SECONDS", 0.05)
    fleet, backend = start_server(base_path)
    front, address = start_server(
        "", backend=f"grpc://{backend}", model_name="tiny", file_system_poll_wait_seconds=poll
    )
    heard: queue.Queue[int] = queue.Queue()

    def watch(channel: grpc.Channel) -> None:
        asked = health_pb2.HealthCheckRequest(service="tiny")
        for answer in health_pb2_grpc.HealthStub(channel).Watch(asked):
            heard.put(answer.status)

    with grpc.insecure_channel(address) as channel:
        watcher = threading.Thread(target=watch, args=(channel,))
        watcher.start()
        assert heard.get(timeout=5.0) == SERVING
        fleet.stop()
        assert heard.get(timeout=5.0) == NOT_SERVING
        assert not front.health.is_serving
        assert _code(channel) == "UNAVAILABLE"
        port = int(backend.rpartition(":")[2])
        with _listening(base_path, port):
            assert heard.get(timeout=15.0) == SERVING
            assert front.health.is_serving
            assert _answer(channel) == (5, 105.0)
            front.stop()
        watcher.join(5.0)
        assert not watcher.is_alive()


@pytest.mark.parametrize("poll", [0.05, 0.0], ids=["polls", "looks once"])
def test_it_starts_before_its_fleet(
    base_path: Path, start_server: StartServer, monkeypatch: pytest.MonkeyPatch, poll: float
) -> None:
    monkeypatch.setattr("serving.models.manager._RETRY_SECONDS", 0.05)
    port = free_port()
    front, address = start_server(
        "", backend=f"grpc://127.0.0.1:{port}", model_name="tiny",
        file_system_poll_wait_seconds=poll,
    )  # fmt: skip
    assert not front.health.is_serving
    with grpc.insecure_channel(address) as channel, _listening(base_path, port):
        wait_until(lambda: front.health.is_serving, 15.0)
        assert _answer(channel) == (5, 105.0)
        front.stop()


def test_a_fleet_that_has_no_such_model_is_told_at_the_start(
    base_path: Path, start_server: StartServer
) -> None:
    _, backend = start_server(base_path)
    with pytest.raises(NotFound, match="Could not find any versions of model ctr"):
        start_server("", backend=f"grpc://{backend}", model_name="ctr")


@contextlib.contextmanager
def _listening(base_path: Path, port: int) -> Iterator[None]:
    """A server on a port that another one has left."""
    server, _ = create_server(ServerConfig(str(base_path), port=port, grace_seconds=1.0))
    server.start()
    yield
    server.stop()


@pytest.fixture
def asks(tmp_path: Path, base_path: Path, start_server: StartServer) -> tuple[str, dict[str, str]]:
    """The address of a fleet that asks who calls, and the options of one that it knows."""
    authority = make_authority(tmp_path)
    server = make_certificate(tmp_path, authority, "ctr.example")
    client = make_certificate(tmp_path, authority, "front", client=True)
    files = {"server_key": server.key, "server_cert": server.certificate}
    files["custom_ca"] = authority.certificate
    lines = [f"{name}: {json.dumps(path.read_text())}" for name, path in files.items()]
    (tmp_path / "ssl").write_text(" ".join([*lines, "client_verify: true"]))
    _, address = start_server(base_path, ssl_config_file=str(tmp_path / "ssl"))
    return address, {
        "backend_tls_ca": str(authority.certificate),
        "backend_tls_cert": str(client.certificate),
        "backend_tls_key": str(client.key),
        "backend_tls_server_name": "ctr.example",
    }


@needs_openssl
def test_a_fleet_with_tls_that_asks_who_calls(
    asks: tuple[str, dict[str, str]], start_server: StartServer
) -> None:
    fleet, known = asks
    _, address = start_server("", backend=f"grpcs://{fleet}", model_name="tiny", **known)
    with grpc.insecure_channel(address) as channel:
        assert _answer(channel) == (5, 105.0)


@needs_openssl
def test_a_fleet_with_tls_answers_nobody_else(
    asks: tuple[str, dict[str, str]], start_server: StartServer, caplog: pytest.LogCaptureFixture
) -> None:
    fleet, known = asks
    strangers = [
        {**known, "backend_tls_ca": ""},
        {**known, "backend_tls_server_name": "other.example"},
        {**known, "backend_tls_cert": "", "backend_tls_key": ""},
    ]
    backends = [(f"grpcs://{fleet}", options) for options in strangers] + [(f"grpc://{fleet}", {})]
    for backend, options in backends:
        caplog.clear()
        front, _ = start_server("", backend=backend, model_name="tiny", **options)
        assert not front.health.is_serving
        assert "No server of the backend answers" in caplog.text
    with pytest.raises(InvalidArgument, match=r"TLS to `backend`: Cannot read `tls.ca` none.pem"):
        start_server("", backend=f"grpcs://{fleet}", model_name="tiny", backend_tls_ca="none.pem")


@needs_openssl
def test_a_fleet_that_wants_a_token(
    tmp_path: Path, base_path: Path, start_server: StartServer, caplog: pytest.LogCaptureFixture
) -> None:
    authority = make_authority(tmp_path)
    server = make_certificate(tmp_path, authority, "ctr.example")
    files = {"server_key": server.key, "server_cert": server.certificate}
    (tmp_path / "ssl").write_text(
        " ".join(f"{name}: {json.dumps(path.read_text())}" for name, path in files.items())
    )
    (tmp_path / "tokens").write_text("one\ntwo\n")
    (tmp_path / "token").write_text("two\n")
    _, fleet = start_server(
        base_path, ssl_config_file=str(tmp_path / "ssl"),
        auth_token_file=str(tmp_path / "tokens"),
    )  # fmt: skip
    options = {
        "backend": f"grpcs://{fleet}", "model_name": "tiny",
        "backend_tls_ca": str(authority.certificate), "backend_tls_server_name": "ctr.example",
    }  # fmt: skip
    _, address = start_server("", backend_token_file=str(tmp_path / "token"), **options)
    with grpc.insecure_channel(address) as channel:
        assert _answer(channel) == (5, 105.0)
    front, _ = start_server("", **options)
    assert not front.health.is_serving
    assert "refuses this server, whose `backend_token_file`" in caplog.text
    with pytest.raises(InvalidArgument, match=r"tokens has 2 tokens. Expected one"):
        start_server("", backend_token_file=str(tmp_path / "tokens"), **options)
