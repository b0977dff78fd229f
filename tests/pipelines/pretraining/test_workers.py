"""Workers train a sequence model together by the command line."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from pipelines.common.errors import PipelineError
from pipelines.pretraining.sequence_steps import SequenceSteps, load_sequence_model
from tests.pipelines.pretraining.small_log import BERT4REC, state_of, steps
from tests.support.ports import free_ports

# Without layers and objectives that draw, each worker for itself. Adam would magnify the rounding
# in gradients that are zero.
ALIKE: dict[str, Any] = {
    "objectives": [{"name": "next_item"}, {"name": "attributes", "column": "genre"}],
    "model.dropout": 0.0,
    "training.optimizer": "sgd",
    "training.learning_rate": 0.1,
}
# With dropout, masks and views; ten steps.
DRAWING: dict[str, Any] = {
    **BERT4REC,
    "training.batch_size": 7,
    "training.checkpoint_every": 2,
    "training.keep": "last",
}
KILLED_AT_STEP_7 = """
import os, signal
from pipelines.cli.commands import main
from pipelines.pretraining.sequence_step import SequenceStep

take, taken = SequenceStep.__call__, []

def killed(*arguments, **options):
    taken.append(1)
    if len(taken) == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    return take(*arguments, **options)

SequenceStep.__call__ = killed
main(prog_name="recsys-attn")
"""


def toml(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key} = {toml(each)}' for key, each in value.items())}}}"
    return json.dumps(value)


def start(
    folder: Path, run: Path, given: dict[str, Any], code: Sequence[str] = ("-m", "pipelines")
) -> list[Any]:
    """Two workers that train in the run folder."""
    cluster = {"worker": [f"127.0.0.1:{port}" for port in free_ports(2)]}
    options = [f"--set={key}={toml(value)}" for key, value in given.items()]
    command = [sys.executable, *code, "pretrain", str(folder / "small.toml")]
    return [
        subprocess.Popen(
            [*command, "--run-dir", str(run), "--step", "train", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=Path(__file__).parents[3],
            env={**os.environ, "TF_CONFIG": json.dumps({"cluster": cluster, "task": task})},
        )
        for task in ({"type": "worker", "index": index} for index in range(2))
    ]


def finished_output(workers: list[Any]) -> str:
    """What the first of the workers says, when all have ended well."""
    outputs = [worker.communicate(timeout=300)[0] for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], outputs
    return str(outputs[0])


def prepare(folder: Path, run: str, **given: Any) -> SequenceSteps:
    """Everything before the training."""
    made = steps(folder, run, **{key.replace(".", "__"): value for key, value in given.items()})
    made.take(["ingest"])
    path = next((folder / run / "data/train").glob("*.parquet"))
    pq.write_table(pq.read_table(path), path, row_group_size=7)  # something to deal
    made.take(["fit"])
    return made


def weights(run: Path) -> list[np.ndarray]:
    """The weights of the trained model."""
    found: list[np.ndarray] = load_sequence_model(run)[1].get_weights()
    return found


@pytest.mark.thorough
def test_two_workers_train_like_two_shards(tmp_path: Path) -> None:
    alone = prepare(tmp_path, "alone", **{"training.shards": 2, **ALIKE})
    shutil.copytree(tmp_path / "alone", tmp_path / "both")
    workers = start(tmp_path, tmp_path / "both", ALIKE)
    alone.take(["train"])
    finished_output(workers)
    found, expected = (weights(tmp_path / run) for run in ("both", "alone"))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.thorough
def test_killed_workers_end_in_the_same_state_when_they_resume(tmp_path: Path) -> None:
    prepare(tmp_path, "whole", **DRAWING)
    shutil.copytree(tmp_path / "whole", tmp_path / "parts")
    finished_output(start(tmp_path, tmp_path / "whole", DRAWING))
    killed = start(tmp_path, tmp_path / "parts", DRAWING, ["-c", KILLED_AT_STEP_7])
    assert killed[0].wait(timeout=300) == -signal.SIGKILL, killed[0].communicate()
    for worker in killed:
        worker.kill()  # the second one may wait for the first
        worker.communicate()
    resumed = finished_output(start(tmp_path, tmp_path / "parts", DRAWING))
    assert "resuming after step 6" in resumed
    found, expected = (state_of(tmp_path / run) for run in ("parts", "whole"))
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)
    for one, other in zip(weights(tmp_path / "parts"), weights(tmp_path / "whole"), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("index", [0, 1])
def test_several_workers_only_train(
    index: int, finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = {"worker": ["127.0.0.1:1", "127.0.0.1:2"]}
    config = {"cluster": cluster, "task": {"type": "worker", "index": index}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    for take in (steps(finished).everything, lambda: steps(finished).take(["fit", "train"])):
        with pytest.raises(PipelineError, match=r"expected `recsys-attn train` .* Received: .*fit"):
            take()
