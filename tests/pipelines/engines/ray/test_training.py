"""Training workers started by Ray behave like workers started by hand."""

import io
import json
import os
import shutil
import socket
import time
import zipfile
from pathlib import Path

import pytest
from rich.console import Console

from pipelines.common.errors import PipelineError
from tests.integration.commands import error_of, invoke, start
from tests.support.experiments import QUICK, write

pytestmark = pytest.mark.xdist_group("ray")
ONCE = ("--set", "training.epochs=1", "--set", "training.batch_size=101")


def _by_hand(experiment: Path, run: Path) -> None:
    with socket.socket() as first, socket.socket() as second:
        for free in (first, second):
            free.bind(("127.0.0.1", 0))
        workers = [f"127.0.0.1:{free.getsockname()[1]}" for free in (first, second)]
    processes = []
    for index in range(2):
        config = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}
        arguments = ("train", experiment, "--run-dir", run, *ONCE)
        processes.append(start(*arguments, tf_config=json.dumps(config)))
    for process in processes:
        output = process.communicate(timeout=300)
        assert process.returncode == 0, output


def _weights(run: Path) -> bytes:
    with zipfile.ZipFile(run / "model" / "model.keras") as file:
        return file.read("model.weights.h5")


@pytest.mark.thorough
def test_ray_workers_train_like_manual_workers(
    cluster: str, prepared: Path, tmp_path: Path
) -> None:
    runs = [Path(shutil.copytree(prepared, tmp_path / name)) for name in ("hand", "ray")]
    experiment = write(tmp_path, QUICK)
    _by_hand(experiment, runs[0])
    options = ("--engine", "ray", "--workers", "2", "--ray-address", cluster)
    result = invoke("train", experiment, "--run-dir", runs[1], *ONCE, *options)
    assert result.exit_code == 0, result.output
    assert result.stdout.count("epoch 1/1  loss") == 1  # the first worker's
    assert _weights(runs[1]) == _weights(runs[0])
    assert os.listdir(runs[1] / "workers") == ["1"]


@pytest.mark.thorough
def test_worker_error_is_the_commands_error(cluster: str, tmp_path: Path) -> None:
    options = ("--engine", "ray", "--workers", "1", "--ray-address", cluster)
    error = error_of(invoke("train", tmp_path / "absent.toml", *options))
    assert error == f"The experiment file {tmp_path / 'absent.toml'} does not exist."


def test_worker_output_is_read_in_any_locale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: `make ray` adds it")
    from pipelines.engines.ray.worker import WorkerProcess

    monkeypatch.setenv("PYTHONIOENCODING", "latin-1")  # as where the locale says so
    experiment = tmp_path / "\u00fcber.toml"
    process = WorkerProcess(["train", str(experiment)], os.getcwd())
    try:
        while (state := process.state()).code is None:
            time.sleep(0.1)
    finally:
        process.kill()
    assert state.error == f"Error: The experiment file {experiment} does not exist.\n"


def test_more_workers_than_there_is_room_for(cluster: str) -> None:
    from pipelines.engines.ray.training import train

    with pytest.raises(PipelineError, match=r"^--workers: .*, which has 2\. Received: 3$"):
        train(["--version"], 3, cluster, Console(file=io.StringIO()))
