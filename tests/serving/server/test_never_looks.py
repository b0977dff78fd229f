"""A server that never looks for versions loads what a reload names, and counts meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from tensorflow_serving.apis import model_management_pb2

from serving.config.server_config import ServerConfig
from serving.server.server import Server, create_server
from tests.serving.commands import free_port
from tests.serving.stubs import predict, send

NAMES = ["/tensorflow/serving/request_count", "/made/up"]


@pytest.fixture
def server(base_path: Path, tmp_path: Path) -> Iterator[tuple[Server, str]]:
    (tmp_path / "monitoring").write_text("prometheus_config { enable: true }")
    config = ServerConfig(
        str(base_path), model_name="tiny", port=0, file_system_poll_wait_seconds=-1.0,
        rest_api_port=free_port(), monitoring_config_file=str(tmp_path / "monitoring"),
        grace_seconds=5.0,
    )  # fmt: skip
    server, port = create_server(config)
    server.start()
    yield server, f"127.0.0.1:{port}"
    server.stop()


def test_nothing_is_loaded_but_by_a_reload(server: tuple[Server, str], base_path: Path) -> None:
    started, address = server
    request = model_management_pb2.ReloadConfigRequest(metric_names=[*NAMES, NAMES[0]])
    models = request.config.model_config_list.config
    models.add(name="tiny", base_path=str(base_path), model_platform="tensorflow")
    assert not started.manager.models["tiny"].is_available
    with grpc.insecure_channel(address) as channel:
        with pytest.raises(grpc.RpcError) as refused:
            send(channel, predict())
        assert refused.value.code() == grpc.StatusCode.NOT_FOUND
        response = send(channel, request)
        found = [(one.name, one.int64_value_increase) for one in response.metric]
        assert found == [(name, 0) for name in NAMES]
        assert send(channel, predict()).model_spec.version.value == 5
