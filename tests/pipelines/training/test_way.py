"""A long training computes its tower in the fastest way, as measured on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.feed import Feed
from pipelines.storage.dataset import DataSplit
from pipelines.training import way
from pipelines.training.model import build_model
from pipelines.training.way import Way, Ways
from recsys_attn.models import RankingModel
from tests.pipelines.training.trainer import MLP, Trainer
from tests.support.experiments import load

DICE = {"name": "mlp", "width": 4, "units": [8], "activation": "dice"}


@pytest.fixture
def _long(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(way, "ROWS", 1)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def _arrays(model: RankingModel) -> list[np.ndarray]:
    """The weights, with the state of random numbers."""
    return [variable.numpy() for variable in model.variables]


def _measured(trainer: Trainer, request: str | None, **model: Any) -> str:
    """The line that a measurement prints; it leaves the model as it was."""
    experiment = load(trainer.folder, model=model)
    feed = Feed(DataSplit(trainer.prepared / "data" / "train"), trainer.fitted, request, 60, seed=1)
    built, said = build_model(experiment, trainer.fitted.schema), []
    before = _arrays(built)
    found = Ways(built, feed, model).fastest(Way(8, False), said.append)
    for old, new in zip(before, _arrays(built), strict=True):
        np.testing.assert_array_equal(new, old)
    (line,) = said
    assert line.startswith(f"tower: {found}. Measured in ")
    return line


def test_a_short_training_measures_nothing(trainer: Trainer) -> None:
    trainer(training__epochs=1)
    assert "tower:" not in trainer.output.getvalue()


@pytest.mark.usefixtures("_long")
def test_a_measured_way_takes_the_same_steps_and_is_remembered(
    trainer: Trainer, tmp_path: Path
) -> None:
    found = trainer(run="1", training__epochs=1)
    assert " 256 candidates at a time: " in trainer.output.getvalue()
    usual = trainer(run="2", training__epochs=1, training__micro_batch_size=64)
    assert "tower:" not in trainer.output.getvalue()
    for one, other in zip(found.get_weights(), usual.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)
    again = trainer(run="3", training__epochs=1)
    assert "the fastest way as measured before" in trainer.output.getvalue()
    for one, other in zip(again.get_weights(), found.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    trainer(run="4", training__epochs=1, model={**MLP, "units": [9]})
    assert "Measured in" in trainer.output.getvalue()


@pytest.mark.usefixtures("_long")
def test_lengths_of_requests_are_not_compiled(trainer: Trainer) -> None:
    line = _measured(trainer, "request_id", **MLP, dropout=0.3)
    assert "32 candidates at a time: " in line
    assert "XLA" not in line


@pytest.mark.usefixtures("_long")
def test_batch_statistics_keep_their_rows(trainer: Trainer) -> None:
    line = _measured(trainer, None, **DICE)
    assert "8 candidates at a time, compiled by XLA: " in line
    assert "32 candidates" not in line
