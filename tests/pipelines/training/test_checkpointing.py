"""Checkpoints, resuming and stopping a training in one process."""

from __future__ import annotations

import io
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from pipelines.common.errors import PipelineError
from pipelines.common.progress import Progress
from pipelines.features import FittedFeatures
from pipelines.training import OutputPaths, TrainingData, train
from pipelines.training.checkpoint import Checkpoints
from pipelines.training.stopping import Stopped
from pipelines.training.validation import Validation
from tests.support import shop
from tests.support.experiments import load

MLP = {"name": "mlp", "width": 4, "units": [8]}


class Training:
    """Trains on the prepared data, again and again in one folder."""

    def __init__(self, prepared: Path, folder: Path) -> None:
        self.prepared = prepared
        self.folder = folder
        self.output = io.StringIO()

    def __call__(self, **options: Any) -> list[np.ndarray]:
        model, self.history, _ = train(
            load(self.folder, **{"model": MLP, **options}),
            TrainingData(
                self.prepared / "data",
                "request_id",
                FittedFeatures.load(self.prepared / "features"),
            ),
            OutputPaths(self.folder / "checkpoints", None, "key"),
            Progress(Console(file=self.output, width=200)),
        )
        return model.get_weights()


@pytest.fixture
def training(prepared: Path, tmp_path: Path) -> Training:
    return Training(prepared, tmp_path)


def test_checkpoints_every_n_steps_and_each_epoch(training: Training) -> None:
    training(training__checkpoint_every=3, training__keep_checkpoints=99)
    steps = [checkpoint.step for checkpoint in Checkpoints(training.folder / "checkpoints").all()]
    epoch = steps[-1] // 2
    assert epoch > 6
    assert steps == sorted({*range(3, 2 * epoch, 3), epoch, 2 * epoch})


def test_changed_data_stops_training_and_keeps_checkpoint(
    training: Training, tmp_path: Path
) -> None:
    """It says the file's name, and goes on when the file is back."""
    expected = training()
    again = Training(tmp_path / "copy", tmp_path / "again")
    again.folder.mkdir()
    shutil.copytree(training.prepared, again.prepared)
    again(training__epochs=1)
    path = again.prepared / "data" / "train" / "part-00000.parquet"
    content = path.read_bytes()
    other = pq.read_table(path)[1:]
    for how in ("overwritten", "cut", "another"):
        pq.write_table(other, path) if how == "another" else shop.damage(path, how)
        with pytest.raises(PipelineError, match=r"train/part-00000\.parquet (is not|cannot be)"):
            again()
        path.write_bytes(content)
    for weight, wanted in zip(again(), expected, strict=True):
        np.testing.assert_array_equal(weight, wanted)
    assert "resuming after step" in again.output.getvalue()


def test_stop_during_validation_saves_and_stops(
    training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the last epoch too: the process was to end, and not to evaluate and export."""
    expected = training(training__epochs=1)
    validate = Validation.__call__

    def signalled(self: Validation) -> dict[str, Any]:
        os.kill(os.getpid(), signal.SIGTERM)
        return validate(self)

    again = Training(training.prepared, training.folder / "again")
    again.folder.mkdir()
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)  # another test may have set its own
    with monkeypatch.context() as patch:
        patch.setattr(Validation, "__call__", signalled)
        with pytest.raises(Stopped, match="Run the same command again"):
            again(training__epochs=1)
    signal.signal(signal.SIGTERM, before)
    for weight, wanted in zip(again(training__epochs=1), expected, strict=True):
        np.testing.assert_array_equal(weight, wanted)
    assert len(again.history) == 1


def test_changed_shards_are_an_error(training: Training) -> None:
    """The places in the checkpoint are of shards that there are no more."""
    training(training__epochs=1, training__shards=2)
    with pytest.raises(PipelineError, match=r"has 2, and there would be 1 .*shards = 2` to go on"):
        training(training__epochs=2)
    training(training__epochs=2, training__shards=2)
    assert len(training.history) == 2


@pytest.mark.parametrize("epochs", [1, 2])
def test_fewer_epochs_restart_training(training: Training, epochs: int) -> None:
    """The weights are those of the epochs that are asked for."""
    training(training__epochs=3, training__patience=9)
    history = training.history
    training(training__epochs=epochs, training__patience=9)
    assert "to another training; starting from scratch" in training.output.getvalue()
    assert [epoch["loss"] for epoch in training.history] == [
        epoch["loss"] for epoch in history[:epochs]
    ]


def test_file_in_place_of_checkpoint_folder_is_an_error(training: Training) -> None:
    (training.folder / "checkpoints").write_text("a note")
    with pytest.raises(PipelineError, match=r"saved in .*checkpoints: File exists\. Move away"):
        training()
    assert training.output.getvalue() == ""
    assert (training.folder / "checkpoints").read_text() == "a note"


def test_damaged_checkpoint_state_is_an_error(training: Training) -> None:
    training(training__epochs=1)
    (folder,) = (training.folder / "checkpoints").iterdir()
    (folder / "state.json").write_text('{"key": ')
    with pytest.raises(PipelineError, match=r"state\.json is damaged: .* Remove .*step-0"):
        training(training__epochs=1)


def test_one_number_alone_can_be_trained(training: Training) -> None:
    """The gradient of a single column, in parts."""
    only = ["user_id", "item_id", "clicked_items"]
    model = {"name": "logistic_regression", "exclude": only}
    weights = training(model=model, training__epochs=1)
    assert all(np.isfinite(weight).all() for weight in weights)
