"""Workers train a sequence model together by the command line."""

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
from tests.pipelines.pretraining.small_log import steps
from tests.support.ports import free_ports

# Without layers and objectives that draw, each worker for itself. Adam would magnify the rounding
# in gradients that are zero.
ALIKE: dict[str, Any] = {
    "objectives": [{"name": "next_item"}, {"name": "attributes", "column": "genre"}],
    "model.dropout": 0.0,
    "training.optimizer": "sgd",
    "training.learning_rate": 0.1,
}


def toml(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key} = {toml(each)}' for key, each in value.items())}}}"
    return json.dumps(value)


def start(folder: Path, run: Path, index: int, ports: list[int]) -> Any:
    cluster = {"worker": [f"127.0.0.1:{port}" for port in ports]}
    config = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})
    options = [f"--set={key}={toml(value)}" for key, value in ALIKE.items()]
    command = [sys.executable, "-m", "pipelines", "pretrain", str(folder / "small.toml")]
    return subprocess.Popen(
        [*command, "--run-dir", str(run), "--step", "train", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=Path(__file__).parents[3],
        env={**os.environ, "TF_CONFIG": config},
    )


@pytest.mark.thorough
def test_two_workers_train_like_two_shards(tmp_path: Path) -> None:
    given = {key.replace(".", "__"): value for key, value in ALIKE.items()}
    alone = steps(tmp_path, "alone", training__shards=2, **given)
    alone.take(["ingest"])
    path = next((tmp_path / "alone/data/train").glob("*.parquet"))
    pq.write_table(pq.read_table(path), path, row_group_size=7)  # something to deal
    alone.take(["fit"])
    shutil.copytree(tmp_path / "alone", tmp_path / "both")
    ports = free_ports(2)
    workers = [start(tmp_path, tmp_path / "both", index, ports) for index in range(2)]
    alone.take(["train"])
    for worker in workers:
        output, _ = worker.communicate(timeout=300)
        assert worker.returncode == 0, output
    both = steps(tmp_path, "both", **given)
    found, expected = (made.load()[1].get_weights() for made in (both, alone))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("index", [0, 1])
def test_several_workers_only_train(
    index: int, finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = {"worker": ["127.0.0.1:1", "127.0.0.1:2"]}
    config = {"cluster": cluster, "task": {"type": "worker", "index": index}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    for take in (steps(finished).everything, lambda: steps(finished).take(["fit", "train"])):
        with pytest.raises(PipelineError, match=r"expected `--step train` .* Received: .*fit"):
            take()
