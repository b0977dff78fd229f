"""An interrupted training ends as one without interruptions."""

import io
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from pipelines.pretraining.sequence_step import SequenceStep
from pipelines.pretraining.sequence_steps import SequenceSteps
from pipelines.training.stopping import Stopped
from tests.pipelines.pretraining.small_log import BERT4REC, load, printed, state_of

# Dropout and masks draw random numbers: each generator must resume at its saved state.
OPTIONS = {**BERT4REC, "training__checkpoint_every": 2, "training__keep": "last"}
MASKS = {"objectives": [{"name": "masked_item"}]}


class Died(Exception):
    """Stands for a process that ends at once."""


def trained(finished: Path, run: Path, **options: Any) -> SequenceSteps:
    """Trains on the finished data and features, in a run folder of its own."""
    for step in ("data", "features"):
        shutil.copytree(finished / "run" / step, run / step, dirs_exist_ok=True)
    experiment = load(finished, **{**OPTIONS, **options})
    console = Console(file=io.StringIO(), width=200)
    made = SequenceSteps.of(experiment, run, console, force=False)
    made.train()
    return made


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(MASKS, id="masks"),
        pytest.param({}, id="masks and views", marks=pytest.mark.thorough),
    ],
)
def options(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The objectives; those of the experiment draw views too."""
    return dict(request.param)


@pytest.fixture(scope="module")
def whole(
    finished: Path, options: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> SequenceSteps:
    """A training without interruptions."""
    return trained(finished, tmp_path_factory.mktemp("whole"), **options)


@pytest.mark.thorough
@pytest.mark.parametrize("how", ["stopped", pytest.param("died", marks=pytest.mark.thorough)])
def test_interrupted_training_ends_in_the_same_state(
    how: str,
    whole: SequenceSteps,
    finished: Path,
    options: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    take, taken = SequenceStep.__call__, []

    def interrupted(self: SequenceStep, *arguments: Any, **named: Any) -> Any:
        taken.append(1)
        if len(taken) == 7 and how == "died":
            raise Died
        if len(taken) == 7:
            os.kill(os.getpid(), signal.SIGTERM)
        return take(self, *arguments, **named)

    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)  # another test may have set its own
    with monkeypatch.context() as patch:
        patch.setattr(SequenceStep, "__call__", interrupted)
        with pytest.raises((Stopped, Died)):
            trained(finished, tmp_path, **options)
    signal.signal(signal.SIGTERM, before)
    parts = trained(finished, tmp_path, **options)
    assert "resuming after step" in printed(parts)
    found, expected = (state_of(made.run.folder) for made in (parts, whole))
    assert any(name.startswith("more/") for name in expected)  # the draws of the objectives
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)
    losses = [[e["loss"] for e in m.run.manifest("train")["training"]] for m in (parts, whole)]
    assert losses[0] == losses[1]
    weights = [made.load()[1].get_weights() for made in (parts, whole)]
    for one, other in zip(*weights, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.thorough
def test_another_objective_starts_anew(finished: Path, tmp_path: Path) -> None:
    trained(finished, tmp_path, training__epochs=1)
    objectives = [{"name": "masked_item", "share": 0.5}]
    again = trained(finished, tmp_path, training__epochs=1, objectives=objectives)
    assert "starting from scratch" in printed(again)
