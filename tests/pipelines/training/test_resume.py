"""A killed or stopped training resumes to the same final state."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.training.checkpoint import Checkpoints

Arrays = dict[str, np.ndarray]


# One loss over candidates and one over requests.
TASKS = [{"name": "click"}, {"name": "conversion", "loss": "list_mle"}]


def run(prepared: Path, folder: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    module = ["-m", "tests.support.training_process"]
    command = [
        sys.executable,
        *module,
        str(prepared),
        str(folder),
        json.dumps({"tasks": TASKS, "training__task_weights": "gradnorm", **options}),
    ]
    return subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[3])


def ended(folder: Path) -> Arrays:
    """The best weights, the losses of all epochs, and the last state of all that is learned."""
    last = Checkpoints(folder / "checkpoints").newest
    assert last is not None
    return {**np.load(folder / "weights-0.npz"), **dict(last.arrays())}


def assert_equal(actual: Arrays, expected: Arrays) -> None:
    """To the bit."""
    assert actual.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(actual[name], array, err_msg=name)


@pytest.mark.thorough
def test_killed_and_stopped_training_ends_in_the_same_state(prepared: Path, tmp_path: Path) -> None:
    assert run(prepared, tmp_path, kill=0.5).returncode == -9
    stopped = run(prepared, tmp_path, kill=-0.1)
    assert stopped.returncode != 0
    assert "resuming after step" in stopped.stdout
    assert "Training was asked to stop. Run the same command again" in stopped.stderr
    step = stopped.stdout.split("saved after step ")[1].split()[0]
    last = run(prepared, tmp_path)
    assert last.returncode == 0, last.stderr
    assert f"resuming after step {step}," in last.stdout
    folder = tmp_path / "uninterrupted"
    folder.mkdir()
    done = run(prepared, folder)
    assert done.returncode == 0, done.stderr
    assert_equal(ended(tmp_path), ended(folder))
    assert np.abs(ended(folder)["task_weights/0"]).min() > 0.01  # learned, and resumed
