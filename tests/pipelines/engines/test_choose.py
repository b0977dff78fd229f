"""The engine of `--engine`, and its errors."""

import socket
import sys
from pathlib import Path

import pytest

from pipelines.common.errors import PipelineError
from pipelines.engines import LocalEngine, choose_engine
from tests.integration.commands import error_of, invoke
from tests.support.experiments import write


def test_default_engine_is_local() -> None:
    assert isinstance(choose_engine("local", "auto"), LocalEngine)


@pytest.mark.parametrize("command", ["fit", "train", "score"])
def test_missing_ray_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    for name in ("engine", "training", "cluster"):
        monkeypatch.delitem(sys.modules, f"pipelines.engines.ray.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "ray", None)
    arguments = ["--input", "x", "--output", "y"] if command == "score" else []
    experiment = write(tmp_path)
    result = invoke(command, experiment, "--run-dir", tmp_path, "--engine", "ray", *arguments)
    assert error_of(result) == (
        'Ray is not installed, which --engine ray needs: pip install "recsys-attn[ray]".'
    )


def test_workers_need_ray(tmp_path: Path) -> None:
    result = invoke("train", write(tmp_path), "--workers", "2")
    assert result.exit_code == 2
    assert "--workers needs --engine ray." in result.stderr


@pytest.mark.parametrize("address", ["nonsense", "host:", ":6379", "host:x", ""])
def test_invalid_ray_address_is_an_error(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    message = f"--ray-address: expected auto, local or host:port, .* Received: {address}$"
    with pytest.raises(PipelineError, match=message):
        _ask(monkeypatch, address)


def test_unreachable_ray_cluster_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(PipelineError, match=rf"no Ray cluster can be used at {address}: .*refused"):
        _ask(monkeypatch, address)


def _ask(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    ray = pytest.importorskip("ray", reason="Ray is not installed: `make ray` adds it")
    monkeypatch.setattr(ray, "is_initialized", lambda: False)  # another test may have a cluster
    list(choose_engine("ray", address).map_ordered(lambda: None, []))
