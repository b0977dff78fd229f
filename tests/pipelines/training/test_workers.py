"""Several workers or devices train like one with several shards."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from pipelines.common.errors import PipelineError
from pipelines.training.workers import find_workers
from tests.support import training_process
from tests.support.ports import free_ports

# Without layers whose result depends on the batch of a worker: dropout, and Dice's averages.
ALIKE: dict[str, Any] = {
    "model": {"name": "mlp", "width": 4, "units": [8]},
    "model__dropout": 0.0,
    "training__epochs": 1,
}
# Adam would magnify the rounding in the gradient of the last bias, which is zero.
RANKED: dict[str, Any] = {
    **ALIKE,
    "tasks": [{"name": "click", "loss": "softmax"}, {"name": "conversion"}],
    "training__optimizer": "sgd",
    "training__learning_rate": 0.1,
    "training__task_weights": "gradnorm",
}


@pytest.fixture(scope="module")
def grouped(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The prepared data in many row groups, so that there is something to deal."""
    folder = tmp_path_factory.mktemp("grouped") / "run"
    shutil.copytree(prepared, folder)
    path = folder / "data" / "train" / "part-00000.parquet"
    pq.write_table(pq.read_table(path), path, row_group_size=211)
    return folder


def start(data: Path, folder: Path, index: int, ports: list[int], **options: Any) -> Any:
    workers = [f"127.0.0.1:{port}" for port in ports]
    task = {"type": "worker", "index": index}
    config = {"cluster": {"worker": workers}, "task": task}
    module = ["-m", "tests.support.training_process"]
    return subprocess.Popen(
        [sys.executable, *module, str(data), str(folder), json.dumps(options)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
        env={**os.environ, "TF_CONFIG": json.dumps(config)},
    )


def test_two_workers_train_like_two_shards(grouped: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    ports = free_ports(2)
    both = [start(grouped, tmp_path / "two", index, ports, **ALIKE) for index in range(2)]
    training_process.main(grouped, tmp_path / "one", training__shards=2, **ALIKE)
    for process in both:
        output = process.communicate(timeout=300)
        assert process.returncode == 0, output
    for worker in range(2):
        assert_alike(tmp_path / "two" / f"weights-{worker}.npz", tmp_path / "one")


@pytest.mark.thorough
def test_two_devices_train_like_two_shards(grouped: Path, tmp_path: Path) -> None:
    """With one loss over candidates and one over requests, and learned weights of both."""
    (tmp_path / "one").mkdir()
    mirrored = start(grouped, tmp_path, 0, [], devices=2, **RANKED)
    training_process.main(grouped, tmp_path / "one", training__shards=2, **RANKED)
    output = mirrored.communicate(timeout=300)
    assert mirrored.returncode == 0, output
    assert_alike(tmp_path / "weights-0.npz", tmp_path / "one")


def assert_alike(path: Path, alone: Path) -> None:
    weights, expected = (dict(np.load(p)) for p in (path, alone / "weights-0.npz"))
    assert weights.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(weights[name], value, rtol=1e-5, atol=1e-5)


@pytest.mark.thorough
def test_lost_worker_stops_training_which_resumes(grouped: Path, tmp_path: Path) -> None:
    ports = free_ports(2)
    first = start(grouped, tmp_path, 0, ports, training__epochs=50)
    second = start(grouped, tmp_path, 1, ports, training__epochs=50, kill=2.0)
    second.communicate(timeout=300)
    _, errors = first.communicate(timeout=300)
    assert (first.returncode, second.returncode) == (1, -9)
    assert "Worker 0 of 2 stopped, since another worker is gone" in errors
    state = max((tmp_path / "checkpoints").glob("step-*")) / "state.json"
    epochs = len(json.loads(state.read_text())["progress"]["epochs"]) + 1
    ports = free_ports(2)
    again = [start(grouped, tmp_path, i, ports, training__epochs=epochs) for i in range(2)]
    outputs = [process.communicate(timeout=300) for process in again]
    assert [process.returncode for process in again] == [0, 0], outputs
    assert all("resuming after step" in output for output, _ in outputs)


@pytest.mark.parametrize(
    "config",
    [
        "{",
        "[]",
        '{"cluster": {"worker": ["a:1", "b:1"]}}',
        '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 2}}',
        '{"cluster": {"worker": ["a:1"], "ps": ["b:1"]}, "task": {"type": "ps", "index": 0}}',
    ],
)
def test_invalid_tf_config_is_refused(monkeypatch: pytest.MonkeyPatch, config: str) -> None:
    monkeypatch.setenv("TF_CONFIG", config)
    with pytest.raises(PipelineError, match=r"TF_CONFIG: expected .* Received: "):
        find_workers()
