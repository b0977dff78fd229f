"""Two processes that share the ports, and a client of two servers: one of them is killed."""

from __future__ import annotations

import contextlib
import http.client
import multiprocessing
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import numpy as np
import pytest
from tensorflow_serving.apis import model_management_pb2

from serving.client import Client
from serving.common.errors import NotFound
from serving.config.server_config import ServerConfig
from serving.server import process, supervisor
from tests.serving.commands import Command, free_port
from tests.serving.conftest import wait_until
from tests.serving.exports import install
from tests.serving.stubs import predict, send, status

MONITORING = "prometheus_config { enable: true }"
PAGE = "/monitoring/prometheus/metrics"
COUNT = re.compile(
    r'^:tensorflow:serving:request_count\{model_name="tiny",status="OK"\} (\S+)$', re.M
)


def _config(base_path: Path, *labels: str) -> str:
    found = " ".join(f'version_labels {{ key: "{label}" value: 5 }}' for label in labels)
    return f'model_config_list {{ config {{ name: "tiny" base_path: "{base_path}" {found} }} }}'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, twofold: Path) -> Path:
    folder = tmp_path_factory.mktemp("processes")
    install(twofold, folder / "tiny", 5)
    (folder / "models.pbtxt").write_text(_config(folder / "tiny"))
    (folder / "monitoring.pbtxt").write_text(MONITORING)
    return folder


@pytest.fixture(scope="module")
def command(folder: Path) -> Iterator[Command]:
    """A server of two processes."""
    command = Command(
        folder / "log",
        processes=2,
        model_config_file=folder / "models.pbtxt",
        model_config_file_poll_wait_seconds=0.1,
        file_system_poll_wait_seconds=0.1,
        monitoring_config_file=folder / "monitoring.pbtxt",
        rest_api_port=free_port(),
    )
    yield command.listens()
    command.end()


def _page(command: Command) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", command.rest_port, timeout=10)
    with contextlib.closing(connection):
        connection.request("GET", PAGE)
        return connection.getresponse().read().decode()


def _counted(command: Command) -> set[float]:
    """Requests, as the pages of either process say: each connection goes to one of them."""
    pages = [COUNT.search(_page(command)) for _ in range(10)]
    return {0.0 if found is None else float(found[1]) for found in pages}


def _channels(command: Command, number: int) -> Iterator[grpc.Channel]:
    for _ in range(number):
        options = [("grpc.use_local_subchannel_pool", 1)]  # a connection each
        with grpc.insecure_channel(command.address, options) as channel:
            yield channel


def _pids(command: Command) -> dict[int, int]:
    """The processes that answer, by number, as the log has them."""
    found = re.findall(r"Process (\d) \((\d+)\) answers", command.log.read_text())
    return {int(number): int(pid) for number, pid in found}


def test_the_metrics_of_either_are_the_sum(command: Command) -> None:
    (before,) = _counted(command)
    for channel in _channels(command, 20):
        send(channel, predict())
    assert _counted(command) == {before + 20}
    page = _page(command)
    shares = [int(n) for n in re.findall(r"score_count\{.*\} (\d+)", page)]
    assert sum(shares) > 0, "histograms too"
    processes = re.findall(r'^process_resident_memory_bytes\{process="(.)"\} (\S+)', page, re.M)
    assert [number for number, size in processes if float(size) > 1e6] == ["0", "1"]


def test_the_models_change_by_the_file_alone_and_in_both(command: Command, folder: Path) -> None:
    with grpc.insecure_channel(command.address) as channel, pytest.raises(grpc.RpcError) as refused:
        send(channel, model_management_pb2.ReloadConfigRequest())
    assert refused.value.code() == grpc.StatusCode.FAILED_PRECONDITION
    assert "model_config_file_poll_wait_seconds" in refused.value.details()

    (folder / "models.pbtxt").write_text(_config(folder / "tiny", "stable"))
    wait_until(lambda: command.log.read_text().count("The models are those of") == 2)
    for channel in _channels(command, 10):
        assert send(channel, predict(version_label="stable")).model_spec.version.value == 5


def test_a_new_version_is_seen_by_both(command: Command, folder: Path, threefold: Path) -> None:
    install(threefold, folder / "tiny", 6)
    wait_until(lambda: command.log.read_text().count("Version 6 of model tiny is available") == 2)
    for channel in _channels(command, 10):
        assert send(channel, predict()).model_spec.version.value == 6
        assert send(channel, status()).model_version_status[0].version == 6


def test_one_that_is_killed_fails_no_retried_call_and_loses_no_count(command: Command) -> None:
    (before,) = _counted(command)
    killed = _pids(command)[1]
    answers = []
    with Client(command.address, model="tiny", timeout=20) as client:
        for i in range(60):
            if i == 20:
                os.kill(killed, signal.SIGKILL)
            answers.append(client.predict_rows([{"price": 2.0}])["click"][0])
    np.testing.assert_array_equal(answers, np.full(60, answers[0]))
    wait_until(lambda: _pids(command)[1] != killed, 60.0)
    (after,) = _counted(command)
    assert before + 60 <= after <= before + 61, "one may have been counted and not have arrived"


def test_sigterm_drains_both_and_cleans_up(command: Command, folder: Path) -> None:
    """The last test: the server is gone after it."""
    answers = []

    def call() -> None:
        with grpc.insecure_channel(command.address) as channel:
            waits = predict(signature_name="wait", inputs={"seconds": np.float32([0.5])})
            answers.append(send(channel, waits))

    callers = [threading.Thread(target=call) for _ in range(4)]
    for caller in callers:
        caller.start()
    time.sleep(0.4)
    metrics = [
        Path(entry.partition("=")[2])
        for entry in Path(f"/proc/{_pids(command)[0]}/environ").read_text().split("\0")
        if entry.startswith("PROMETHEUS_MULTIPROC_DIR=")
    ]
    assert metrics[0].is_dir()
    command.process.terminate()
    assert command.process.wait(20) == 0
    for caller in callers:
        caller.join()
    assert len(answers) == 4
    assert not metrics[0].exists()


def test_a_taken_port_is_one_sentence_and_starts_nothing(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        other = Command(tmp_path / "log", processes=2, model_base_path=tmp_path, port=port)
        assert other.process.wait(60) == 2
    other.end()
    (line,) = other.log.read_text().splitlines()
    assert line.startswith(f"Error: Cannot listen on 127.0.0.1:{port}: Address already in use.")


def test_one_that_has_nothing_to_serve_says_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def nothing(*_: object) -> None:
        raise NotFound("No version.")

    monkeypatch.setattr(process, "loaded", nothing)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    told, tell = multiprocessing.Pipe(duplex=False)
    with told, tell:
        with pytest.raises(SystemExit) as ended:
            supervisor.serve_one(ServerConfig(str(tmp_path), processes=2), 0, tell)
        assert (told.recv(), ended.value.code) == ("No version.", 2)
