"""A proxy and its backend, through their ports: versions, health, TLS and tokens."""

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
from tensorflow_serving.apis import model_management_pb2

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
    """A proxy that knows version 5 and does not poll, of a backend that has moved to version 6."""

    def start(policy: str = "", **options: object) -> str:
        server, backend = start_server(base_path)
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
        wait_until(lambda: server.manager.models["tiny"].current == 6)
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


@pytest.mark.parametrize("batching", [False, True], ids=["unbatched", "batched"])
def test_the_next_version_answers(moved: Callable[..., str], batching: bool) -> None:
    with grpc.insecure_channel(moved(LABEL, enable_batching=batching)) as channel:
        assert _code(channel, version=5) == "NOT_FOUND"
        assert _code(channel, version_label="stable") == "NOT_FOUND"
        assert _answer(channel) == (6, 106.5)
        assert _answer(channel, version=6) == (6, 106.5)


def test_specific_policy_allows_no_other_version(moved: Callable[..., str]) -> None:
    with grpc.insecure_channel(moved(SPECIFIC)) as channel:
        assert [_code(channel), _code(channel)] == ["NOT_FOUND", "NOT_FOUND"]


@pytest.mark.parametrize("poll", [0.05, 0.0], ids=["polls", "polls once"])
def test_health_follows_the_backend(
    base_path: Path, start_server: StartServer, monkeypatch: pytest.MonkeyPatch, poll: float
) -> None:
    """Also when the proxy starts first."""
    monkeypatch.setattr("serving.models.manager._RETRY_SECONDS", 0.05)
    port, reported = free_port(), queue.Queue[int]()
    proxy, address = start_server(
        "", backend=f"grpc://127.0.0.1:{port}", model_name="tiny",
        file_system_poll_wait_seconds=poll,
    )  # fmt: skip

    def watch(channel: grpc.Channel) -> None:
        request = health_pb2.HealthCheckRequest(service="tiny")
        for answer in health_pb2_grpc.HealthStub(channel).Watch(request):
            reported.put(answer.status)

    with grpc.insecure_channel(address) as channel:
        watcher = threading.Thread(target=watch, args=(channel,))
        watcher.start()
        assert reported.get(timeout=5.0) == NOT_SERVING
        for _ in range(2):
            with _backend(base_path, port):
                assert reported.get(timeout=15.0) == SERVING
                assert proxy.listener.health.is_serving
                assert _answer(channel) == (5, 105.0)
            assert reported.get(timeout=5.0) == NOT_SERVING
            assert not proxy.listener.health.is_serving
            assert _code(channel) == "UNAVAILABLE"
        proxy.stop()
        watcher.join(5.0)
        assert not watcher.is_alive()


def test_base_paths_are_not_read(base_path: Path, start_server: StartServer) -> None:
    """So a reload may name any, and a model that the backend lacks is an error."""
    _, backend = start_server(base_path)
    _, address = start_server("", backend=f"grpc://{backend}", model_name="tiny")
    request = model_management_pb2.ReloadConfigRequest()
    models = request.config.model_config_list.config
    models.add(name="tiny", base_path="/anywhere", model_platform="tensorflow")
    with grpc.insecure_channel(address) as channel:
        assert send(channel, request).status.error_code == 0
        assert _answer(channel) == (5, 105.0)
    with pytest.raises(NotFound, match="Could not find any versions of model ctr"):
        start_server("", backend=f"grpc://{backend}", model_name="ctr")


@contextlib.contextmanager
def _backend(base_path: Path, port: int) -> Iterator[None]:
    server, _ = create_server(ServerConfig(str(base_path), port=port, grace_seconds=1.0))
    server.start()
    yield
    server.stop()


@needs_openssl
def test_tls_and_token(
    tmp_path: Path, base_path: Path, start_server: StartServer, caplog: pytest.LogCaptureFixture
) -> None:
    authority = make_authority(tmp_path)
    own = make_certificate(tmp_path, authority, "ctr.example")
    client = make_certificate(tmp_path, authority, "proxy", client=True)
    files = {"server_key": own.key, "server_cert": own.certificate}
    files["custom_ca"] = authority.certificate
    lines = [f"{name}: {json.dumps(path.read_text())}" for name, path in files.items()]
    (tmp_path / "ssl").write_text(" ".join([*lines, "client_verify: true"]))
    (tmp_path / "tokens").write_text("one\ntwo\n")
    (tmp_path / "token").write_text("two\n")
    _, backend = start_server(
        base_path, ssl_config_file=str(tmp_path / "ssl"), auth_token_file=str(tmp_path / "tokens")
    )
    valid: dict[str, Any] = {
        "backend": f"grpcs://{backend}", "model_name": "tiny",
        "backend_tls_ca": str(authority.certificate), "backend_tls_cert": str(client.certificate),
        "backend_tls_key": str(client.key), "backend_tls_server_name": "ctr.example",
        "backend_token_file": str(tmp_path / "token"),
    }  # fmt: skip
    _, address = start_server("", **valid)
    with grpc.insecure_channel(address) as channel:
        assert _answer(channel) == (5, 105.0)
    for change, words in (
        ({"backend_tls_ca": ""}, "No server of the backend answers"),
        ({"backend_tls_server_name": "other.example"}, "No server of the backend answers"),
        ({"backend_tls_cert": "", "backend_tls_key": ""}, "No server of the backend answers"),
        ({"backend_token_file": ""}, "rejects this server; check `backend_token_file`"),
    ):
        caplog.clear()
        proxy, _ = start_server("", **{**valid, **change})
        assert not proxy.listener.health.is_serving
        assert words in caplog.text
    for option, words in (
        ({"backend_tls_ca": "none.pem"}, r"TLS to `backend`: Cannot read `tls.ca` none.pem"),
        ({"backend_token_file": str(tmp_path / "tokens")}, "tokens has 2 tokens. Expected one"),
    ):
        with pytest.raises(InvalidArgument, match=words):
            start_server("", **{**valid, **option})
