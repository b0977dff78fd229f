"""A training that is killed and started again ends with the state of one that is not."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.training.checkpoint import Checkpoints
from tests.support.training_process import FLAGSHIP

MODELS: dict[str, dict[str, Any]] = {"mlp": {}, "attention_ranker": {"model": FLAGSHIP}}

Undisturbed = Callable[[str], dict[str, np.ndarray]]


def run(prepared: Path, folder: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    module = ["-m", "tests.support.training_process"]
    command = [sys.executable, *module, str(prepared), str(folder), json.dumps(options)]
    return subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[3])


def ended(folder: Path) -> dict[str, np.ndarray]:
    """The best weights, the losses of all epochs, and the last state of model and optimizer."""
    last = Checkpoints(folder / "checkpoints").newest
    assert last is not None
    return {**np.load(folder / "weights-0.npz"), **dict(last.arrays())}


def assert_equal(actual: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    """To the bit."""
    assert actual.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(actual[name], array, err_msg=name)


@pytest.fixture(scope="module")
def undisturbed(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    """How a training of a model ends that nothing interrupts."""

    @cache  # pytest keeps one parameter's fixture at a time, and makes it again for the next test
    def trained(model: str) -> dict[str, np.ndarray]:
        folder = tmp_path_factory.mktemp("undisturbed")
        done = run(prepared, folder, **MODELS[model])
        assert done.returncode == 0, done.stderr
        return ended(folder)

    return trained


@pytest.mark.parametrize(("model", "kills"), [("mlp", 2), ("attention_ranker", 1)])
def test_killed_at_random_moments_it_ends_the_same(
    prepared: Path, tmp_path: Path, undisturbed: Undisturbed, model: str, kills: int
) -> None:
    options = MODELS[model]
    moments = np.random.default_rng(1).uniform(0, 1.0, kills)
    codes = [run(prepared, tmp_path, kill=moment, **options).returncode for moment in moments]
    assert codes[0] == -9  # it was killed indeed
    last = run(prepared, tmp_path, **options)
    assert last.returncode == 0, last.stderr
    assert "going on after step" in last.stdout
    assert_equal(ended(tmp_path), undisturbed(model))


def test_asked_to_stop_it_saves_and_goes_on(
    prepared: Path, tmp_path: Path, undisturbed: Undisturbed
) -> None:
    stopped = run(prepared, tmp_path, kill=-0.1)
    assert stopped.returncode != 0
    assert "Training was asked to stop. Run the same command again" in stopped.stderr
    step = stopped.stdout.split("saved after step ")[1].split()[0]
    last = run(prepared, tmp_path)
    assert f"going on after step {step}," in last.stdout
    assert_equal(ended(tmp_path), undisturbed("mlp"))
