"""Who may reload by RPC, and which folders a reload may name."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest
from tensorflow_serving.apis import model_management_pb2
from tensorflow_serving.config import model_server_config_pb2

from serving.client import Client
from serving.common.errors import InvalidArgument, PermissionDenied, ServingError, Unauthenticated
from tests.serving.conftest import StartServer, wait_until
from tests.serving.exports import install
from tests.serving.stubs import predict, send

ROW = {"user": "ann", "age": 31, "price": 1.5}


def _config(base_path: Path, name: str = "tiny") -> model_server_config_pb2.ModelServerConfig:
    config = model_server_config_pb2.ModelServerConfig()
    config.model_config_list.config.add(name=name, base_path=str(base_path))
    return config


def _tokens(tmp_path: Path, name: str, *tokens: str) -> str:
    (tmp_path / name).write_text("\n".join(tokens))
    return str(tmp_path / name)


def test_beyond_loopback_a_reload_must_be_allowed(
    start_server: StartServer, base_path: Path
) -> None:
    beyond = {"model_name": "tiny", "host": "0.0.0.0", "allow_insecure": True}
    _, closed = start_server(base_path, **beyond)
    with grpc.insecure_channel(closed) as channel:
        with pytest.raises(grpc.RpcError) as refused:
            send(channel, model_management_pb2.ReloadConfigRequest(config=_config(base_path)))
        assert refused.value.code() == grpc.StatusCode.PERMISSION_DENIED
        assert "`reload_token_file` or `allow_reload`" in refused.value.details()
        assert send(channel, predict()).outputs
    _, opened = start_server(base_path, **beyond, allow_reload=True)
    with Client(opened, model="tiny") as client:
        client.reload(_config(base_path))


@pytest.mark.parametrize("scoring", [(), ("score",)])
def test_a_reload_needs_a_token_of_its_own(
    start_server: StartServer, base_path: Path, tmp_path: Path, scoring: tuple[str, ...]
) -> None:
    files = {"reload_token_file": _tokens(tmp_path, "reload", "swap", "swop")}
    if scoring:
        files["auth_token_file"] = _tokens(tmp_path, "auth", *scoring)
    _, address = start_server(base_path, model_name="tiny", **files)
    errors: dict[str | None, type[ServingError]] = {
        None: Unauthenticated,
        "score": PermissionDenied,
    }
    for token, error in errors.items():
        with Client(address, model="tiny", token=token) as client, pytest.raises(error):
            client.reload(_config(base_path))
    with Client(address, model="tiny", token="swop") as client:
        client.reload(_config(base_path))
        assert client.predict_rows([ROW])["click"] == [3.0], "it may ask for scores too"


def test_only_the_configured_folders_can_be_named(
    start_server: StartServer, base_path: Path, tmp_path: Path, twofold: Path
) -> None:
    for name in ("outside", "other"):
        (tmp_path / name).mkdir()
        install(twofold, tmp_path / name / "a", 1)
    _, address = start_server(base_path, model_name="tiny", reload_root=str(tmp_path / "other"))
    with Client(address, model="tiny") as client:
        words = set()
        for outside in (tmp_path / "outside" / "a", tmp_path / "none"):
            with pytest.raises(PermissionDenied, match="`reload_root`") as refused:
                client.reload(_config(outside))
            words.add(str(refused.value).replace(str(outside), ""))
        assert len(words) == 1, "what is there and what is not are refused alike"
        client.reload(_config(tmp_path / "other" / "a"))
        client.reload(_config(base_path))


def test_the_roots_follow_the_model_config_file(
    start_server: StartServer, base_path: Path, tmp_path: Path, twofold: Path
) -> None:
    install(twofold, tmp_path / "next", 6)
    file = tmp_path / "models.config"
    file.write_text(str(_config(base_path)))
    _, address = start_server(
        Path(), model_config_file=str(file), model_config_file_poll_wait_seconds=0.05
    )
    with Client(address, model="tiny") as client:
        with pytest.raises(PermissionDenied):
            client.reload(_config(tmp_path / "next"))
        file.write_text(str(_config(tmp_path / "next")))
        wait_until(lambda: client.status()[0].version == 6)
        client.reload(_config(tmp_path / "next"))
        with pytest.raises(PermissionDenied):
            client.reload(_config(base_path))


def test_a_reload_that_fails_lists_no_folder(
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
    assert "Found: secret.txt" in caplog.text, "the operator sees it"


@pytest.mark.parametrize(
    "name",
    ["", "a\nb", "a\x1b[2J", "a/b", "a:b", "a\u2028b", "m" * 129],
    ids=["empty", "newline", "escape", "slash", "colon", "separator", "long"],
)
def test_a_name_that_cannot_be(start_server: StartServer, shared_address: str, name: str) -> None:
    with (
        Client(shared_address, model="tiny") as client,
        pytest.raises(InvalidArgument, match="name must have 1 to 128 characters") as refused,
    ):
        client.reload(_config(Path("/models"), name))
    assert str(refused.value).isprintable()
