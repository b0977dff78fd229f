"""A long training computes its tower in the fastest mode, as measured on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.feed import Feed
from pipelines.storage.dataset import DataSplit
from pipelines.training import tower_mode
from pipelines.training.model import build_model
from pipelines.training.tower_mode import TowerMode, TowerTuner
from recsys_attn.models import RankingModel
from tests.pipelines.training.trainer import MLP, Trainer
from tests.support.experiments import load

DICE = {"name": "mlp", "width": 4, "units": [8], "activation": "dice"}
DEFAULT = TowerMode(8, False)


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(tower_mode, "ROWS", 1)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "recsys-attn" / "towers.json"


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[TowerMode]:
    """The measured modes; the last one of a measurement is the fastest."""
    modes: list[TowerMode] = []

    def seconds(self: TowerTuner, mode: TowerMode, *rows: Any) -> float:
        modes.append(mode)
        return 1 / len(modes)

    monkeypatch.setattr(TowerTuner, "_seconds", seconds)
    return modes


def _tuner(trainer: Trainer, request: str | None, **model: Any) -> TowerTuner:
    experiment = load(trainer.folder, model=model)
    feed = Feed(DataSplit(trainer.prepared / "data" / "train"), trainer.fitted, request, 60, seed=1)
    return TowerTuner(build_model(experiment, trainer.fitted.schema), feed, model)


def _arrays(model: RankingModel) -> list[np.ndarray]:
    """The weights, with the state of random numbers."""
    return [variable.numpy() for variable in model.variables]


def test_a_short_training_measures_nothing(
    trainer: Trainer, monkeypatch: pytest.MonkeyPatch, measured: list[TowerMode]
) -> None:
    monkeypatch.setattr(tower_mode, "ROWS", 10**6)
    said: list[str] = []
    assert _tuner(trainer, None, **MLP).fastest(DEFAULT, said.append) == DEFAULT
    assert said == measured == []


def test_the_fastest_mode_is_taken_and_remembered(
    trainer: Trainer, measured: list[TowerMode], cache: Path
) -> None:
    said: list[str] = []
    found = _tuner(trainer, None, **MLP).fastest(DEFAULT, said.append)
    assert measured == [DEFAULT, TowerMode(32, False), TowerMode(8, True), TowerMode(32, True)]
    assert found == measured[-1]
    again = _tuner(trainer, None, **MLP).fastest(DEFAULT, said.append)
    assert (len(measured), again) == (4, found)
    assert "32 candidates at a time, compiled by XLA" in said[0]
    assert f"as measured before ({cache})" in said[1]
    _tuner(trainer, None, **{**MLP, "units": [9]}).fastest(DEFAULT, said.append)
    _tuner(trainer, "request_id", **MLP).fastest(DEFAULT, said.append)
    assert len(measured) == 4 + 4 + 2  # requests of several candidates are not compiled


def test_a_mode_must_be_faster_by_a_tenth(
    trainer: Trainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        TowerTuner, "_seconds", lambda self, mode, *rows: 1.0 if mode == DEFAULT else 0.95
    )
    assert _tuner(trainer, None, **MLP).fastest(DEFAULT, print) == DEFAULT


def test_a_tower_with_batch_statistics_keeps_its_micro_batch_size(
    trainer: Trainer, measured: list[TowerMode]
) -> None:
    _tuner(trainer, None, **DICE).fastest(DEFAULT, print)
    assert measured == [DEFAULT, TowerMode(8, True)]


def test_a_size_beyond_the_batch_is_not_measured(
    trainer: Trainer, measured: list[TowerMode], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One part for each of 16 processors has at most 4 of 60 requests."""
    monkeypatch.setattr("pipelines.scoring.microbatches._processors", lambda: 16)
    _tuner(trainer, None, **MLP).fastest(DEFAULT, print)
    assert measured == [DEFAULT, TowerMode(8, True)]


@pytest.mark.parametrize("text", ["", "[]", '{"a": '])
def test_a_damaged_memory_is_measured_again(
    trainer: Trainer, measured: list[TowerMode], cache: Path, text: str
) -> None:
    cache.parent.mkdir(parents=True)
    cache.write_text(text, "utf-8")
    _tuner(trainer, "request_id", **MLP).fastest(DEFAULT, print)
    assert len(json.loads(cache.read_text("utf-8"))) == 1


def test_no_home_needs_no_memory(
    trainer: Trainer, measured: list[TowerMode], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", missing)
    assert _tuner(trainer, "request_id", **MLP).fastest(DEFAULT, print) == measured[-1]


@pytest.mark.thorough
def test_measuring_leaves_the_model_as_it_was(trainer: Trainer) -> None:
    tuner, said = _tuner(trainer, None, **MLP, dropout=0.3), []
    before = _arrays(tuner._model)
    found = tuner.fastest(DEFAULT, said.append)
    for old, new in zip(before, _arrays(tuner._model), strict=True):
        np.testing.assert_array_equal(new, old)
    assert said[0].startswith(f"tower: {found}. Seconds of a batch, measured in ")


@pytest.mark.thorough
def test_a_resumed_training_keeps_its_mode(
    trainer: Trainer, measured: list[TowerMode], cache: Path
) -> None:
    trainer(training__epochs=1)
    assert "tower: " in trainer.output.getvalue()
    cache.unlink()
    count = len(measured)
    trainer(training__epochs=2)
    assert len(measured) == count > 1
    trainer(run="another", training__epochs=1)
    assert len(measured) == 2 * count
