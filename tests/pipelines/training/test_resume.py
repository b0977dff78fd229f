"""A training that is killed and started again ends with the weights of one that is not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest


def run(prepared: Path, folder: Path, **options: float) -> subprocess.CompletedProcess[str]:
    module = ["-m", "tests.support.training_process"]
    command = [sys.executable, *module, str(prepared), str(folder), json.dumps(options)]
    return subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[3])


@pytest.fixture(scope="module")
def undisturbed(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    folder = tmp_path_factory.mktemp("undisturbed")
    done = run(prepared, folder)
    assert done.returncode == 0, done.stderr
    return dict(np.load(folder / "weights-0.npz"))


def test_killed_at_random_moments_it_ends_with_the_same_weights(
    prepared: Path, tmp_path: Path, undisturbed: dict[str, np.ndarray]
) -> None:
    """To the bit: weights, and the losses of all epochs."""
    moments = np.random.default_rng(1).uniform(0, 1.0, 2)
    codes = [run(prepared, tmp_path, kill=moment).returncode for moment in moments]
    assert codes[0] == -9  # it was killed indeed
    last = run(prepared, tmp_path)
    assert last.returncode == 0, last.stderr
    assert "going on after step" in last.stdout
    resumed = dict(np.load(tmp_path / "weights-0.npz"))
    assert resumed.keys() == undisturbed.keys()
    for name, expected in undisturbed.items():
        np.testing.assert_array_equal(resumed[name], expected)


def test_asked_to_stop_it_saves_and_goes_on(
    prepared: Path, tmp_path: Path, undisturbed: dict[str, np.ndarray]
) -> None:
    stopped = run(prepared, tmp_path, kill=-0.1)
    assert stopped.returncode != 0
    assert "Training was asked to stop. Run the same command again" in stopped.stderr
    step = stopped.stdout.split("saved after step ")[1].split()[0]
    last = run(prepared, tmp_path)
    assert f"going on after step {step}," in last.stdout
    resumed = dict(np.load(tmp_path / "weights-0.npz"))
    for name, expected in undisturbed.items():
        np.testing.assert_array_equal(resumed[name], expected)
