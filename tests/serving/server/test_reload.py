"""Reloads by RPC: who may send them, which folders they may name, and what they return."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest
from tensorflow_serving.apis import model_management_pb2
from tensorflow_serving.config import model_server_config_pb2

from serving.client import Client
from serving.common.errors import InvalidArgument, PermissionDenied, ServingError, Unauthenticated
from tests.serving.commands import free_port
from tests.serving.conftest import StartServer, wait_until
from tests.serving.exports import install
from tests.serving.stubs import predict, send

ROW = {"user": "ann", "age": 31, "price": 1.5}
METRICS = ["/tensorflow/serving/request_count", "/made/up"]


def _config(base_path: Path, name: str = "tiny") -> model_server_config_pb2.ModelServerConfig:
    config = model_server_config_pb2.ModelServerConfig()
    config.model_config_list.config.add(name=name, base_path=str(base_path))
    return config


def _file(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def test_a_server_that_never_polls_loads_by_reload(
    start_server: StartServer, base_path: Path, tmp_path: Path
) -> None:
    """The response counts, for each metric once, what changed meanwhile."""
    _, address = start_server(
        base_path, file_system_poll_wait_seconds=-1.0, rest_api_port=free_port(),
        monitoring_config_file=_file(tmp_path / "m", "prometheus_config { enable: true }"),
    )  # fmt: skip
    request = model_management_pb2.ReloadConfigRequest(
        config=_config(base_path), metric_names=[*METRICS, METRICS[0]]
    )
    with grpc.insecure_channel(address) as channel:
        with pytest.raises(grpc.RpcError) as rejected:
            send(channel, predict())
        assert rejected.value.code() == grpc.StatusCode.NOT_FOUND
        found = send(channel, request).metric
        assert [(one.name, one.int64_value_increase) for one in found] == [
            (name, 0) for name in METRICS
        ]
        assert send(channel, predict()).model_spec.version.value == 5


def test_beyond_loopback_a_reload_must_be_allowed(
    start_server: StartServer, base_path: Path
) -> None:
    beyond = {"model_name": "tiny", "host": "0.0.0.0", "allow_insecure": True}
    _, closed = start_server(base_path, **beyond)
    with Client(closed, model="tiny") as client:
        with pytest.raises(PermissionDenied, match="`reload_token_file` or `allow_reload`"):
            client.reload(_config(base_path))
        assert client.predict_rows([ROW])["click"] == [3.0]
    _, opened = start_server(base_path, **beyond, allow_reload=True)
    with Client(opened, model="tiny") as client:
        client.reload(_config(base_path))


@pytest.mark.parametrize("auth", ["", "score"])
def test_a_reload_needs_its_own_token(
    start_server: StartServer, base_path: Path, tmp_path: Path, auth: str
) -> None:
    files = {"reload_token_file": _file(tmp_path / "reload", "swap\nswop")}
    if auth:
        files["auth_token_file"] = _file(tmp_path / "auth", auth)
    _, address = start_server(base_path, model_name="tiny", **files)
    for token, error in ((None, Unauthenticated), ("score", PermissionDenied)):
        with Client(address, model="tiny", token=token) as client, pytest.raises(error):
            client.reload(_config(base_path))
    with Client(address, model="tiny", token="swop") as client:
        client.reload(_config(base_path))
        assert client.predict_rows([ROW])["click"] == [3.0], "it is valid for scores too"


def test_a_reload_names_allowed_folders_only(
    start_server: StartServer, base_path: Path, tmp_path: Path, twofold: Path
) -> None:
    """The error does not say whether another folder exists."""
    for name in ("outside", "other"):
        (tmp_path / name).mkdir()
        install(twofold, tmp_path / name / "a", 1)
    _, address = start_server(base_path, model_name="tiny", reload_root=str(tmp_path / "other"))
    with Client(address, model="tiny") as client:
        messages = set()
        for outside in (tmp_path / "outside" / "a", tmp_path / "none"):
            with pytest.raises(PermissionDenied, match="`reload_root`") as rejected:
                client.reload(_config(outside))
            messages.add(str(rejected.value).replace(str(outside), ""))
        assert len(messages) == 1
        client.reload(_config(tmp_path / "other" / "a"))
        client.reload(_config(base_path))


def test_allowed_folders_follow_the_model_config_file(
    start_server: StartServer, base_path: Path, tmp_path: Path, twofold: Path
) -> None:
    install(twofold, tmp_path / "next", 6)
    file = _file(tmp_path / "models.config", str(_config(base_path)))
    _, address = start_server(
        Path(), model_config_file=file, model_config_file_poll_wait_seconds=0.05
    )
    with Client(address, model="tiny") as client:
        with pytest.raises(PermissionDenied):
            client.reload(_config(tmp_path / "next"))
        _file(tmp_path / "models.config", str(_config(tmp_path / "next")))
        wait_until(lambda: client.status()[0].version == 6)
        client.reload(_config(tmp_path / "next"))
        with pytest.raises(PermissionDenied):
            client.reload(_config(base_path))


def test_a_failed_reload_lists_files_in_the_log_only(
    start_server: StartServer, base_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (base_path / "empty" / "secret.txt").mkdir(parents=True)
    _, address = start_server(base_path, model_name="tiny")
    with (
        Client(address, model="tiny") as client,
        pytest.raises(ServingError, match="did not become available") as failed,
    ):
        client.reload(_config(base_path / "empty", "new"))
    assert "secret.txt" not in str(failed.value)
    assert "Found: secret.txt" in caplog.text


@pytest.mark.parametrize("name", ["", "a\nb", "a\x1b[2J", "a/b", "a:b", "a\u2028b", "m" * 129])
def test_a_model_name_is_checked(shared_address: str, name: str) -> None:
    with (
        Client(shared_address, model="tiny") as client,
        pytest.raises(InvalidArgument, match="name must have 1 to 128 characters") as rejected,
    ):
        client.reload(_config(Path("/models"), name))
    assert str(rejected.value).isprintable()
