"""Checkpoints, resuming and stopping a training in one process."""

import os
import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from pipelines.common.errors import PipelineError
from pipelines.training.checkpoint import Checkpoints
from pipelines.training.stopping import Stopped
from pipelines.training.validation import Validation
from tests.pipelines.training.trainer import Trainer
from tests.support import shop


def test_checkpoints_every_n_steps_and_each_epoch(trainer: Trainer) -> None:
    trainer(training__checkpoint_every=3, training__keep_checkpoints=99)
    steps = [checkpoint.step for checkpoint in Checkpoints(trainer.folder / "checkpoints").all()]
    epoch = steps[-1] // 2
    assert epoch > 6
    assert steps == sorted({*range(3, 2 * epoch, 3), epoch, 2 * epoch})


def test_changed_data_stops_training_and_keeps_checkpoint(trainer: Trainer, tmp_path: Path) -> None:
    """It says the file's name, and goes on when the file is back."""
    expected = trainer().get_weights()
    again = Trainer(tmp_path / "copy", tmp_path / "again")
    again.folder.mkdir()
    shutil.copytree(trainer.prepared, again.prepared)
    again(training__epochs=1)
    path = again.prepared / "data" / "train" / "part-00000.parquet"
    content = path.read_bytes()
    other = pq.read_table(path)[1:]
    for how in ("overwritten", "cut", "another"):
        pq.write_table(other, path) if how == "another" else shop.damage(path, how)
        with pytest.raises(PipelineError, match=r"train/part-00000\.parquet.* (is not|cannot be)"):
            again()
        path.write_bytes(content)
    for weight, wanted in zip(again().get_weights(), expected, strict=True):
        np.testing.assert_array_equal(weight, wanted)
    assert "resuming after step" in again.output.getvalue()


def test_stop_during_validation_saves_and_stops(
    trainer: Trainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the last epoch too: the process was to end, and not to evaluate and export."""
    expected = trainer(training__epochs=1).get_weights()
    validate = Validation.__call__

    def signalled(self: Validation) -> dict[str, Any]:
        os.kill(os.getpid(), signal.SIGTERM)
        return validate(self)

    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)  # another test may have set its own
    with monkeypatch.context() as patch:
        patch.setattr(Validation, "__call__", signalled)
        with pytest.raises(Stopped, match="Run the same command again"):
            trainer(run="again", training__epochs=1)
    signal.signal(signal.SIGTERM, before)
    resumed = trainer(run="again", training__epochs=1).get_weights()
    for weight, wanted in zip(resumed, expected, strict=True):
        np.testing.assert_array_equal(weight, wanted)
    assert len(trainer.history) == 1


def test_resumed_training_compares_with_the_same_best_epoch(trainer: Trainer) -> None:
    """After an interruption the best epoch is scored again: the noise of the next is the same."""
    trainer(run="whole", training__epochs=3)
    expected = [epoch["val_noise"] for epoch in trainer.history]
    for epochs in (2, 3):
        trainer(run="parts", training__epochs=epochs)
    assert [epoch["val_noise"] for epoch in trainer.history] == expected
    assert expected[0] == 0.0
    assert expected[2] > 0


GATED = {
    "name": "mmoe",
    "width": 4,
    "experts": {"number": 3, "units": [5]},
    "tower_units": [3],
    "gates": {"class_name": "hard_concrete", "config": {"penalty": 0.5}},
    "disagreement": {"outputs": 0.1},
}


@pytest.mark.thorough
def test_penalty_schedule_resumes_to_the_bit(trainer: Trainer) -> None:
    """An interruption within the growth of the penalties, with the noise of the gates."""
    options = {
        "model": GATED,
        "training__keep": "last",
        "training__learning_rate": 0.05,
        "training__penalty_warmup": (3, 30),
    }
    whole = trainer(run="whole", training__epochs=2, **options).get_weights()
    trainer(run="parts", training__epochs=1, **options)
    resumed = trainer(run="parts", training__epochs=2, **options).get_weights()
    assert "resuming after step" in trainer.output.getvalue()
    for weight, wanted in zip(resumed, whole, strict=True):
        np.testing.assert_array_equal(weight, wanted)
    free = trainer(**{**options, "training__penalty_warmup": (999, 999)}, training__epochs=2)
    gates = [i for i, weight in enumerate(free.weights) if weight.name == "log_alpha"]
    assert len(gates) == 2
    for i in gates:
        assert whole[i].sum() < free.get_weights()[i].sum() - 0.3


@pytest.mark.thorough
def test_changed_shards_are_an_error(trainer: Trainer) -> None:
    """The places in the checkpoint are of shards that there are no more."""
    trainer(training__epochs=1, training__shards=2)
    with pytest.raises(PipelineError, match=r"has 2, and this one has 1: .*shards = 2` to go on"):
        trainer(training__epochs=2)
    trainer(training__epochs=2, training__shards=2)
    assert len(trainer.history) == 2


@pytest.mark.thorough
def test_fewer_epochs_restart_training(trainer: Trainer) -> None:
    """The weights are those of the epochs that are asked for."""
    trainer(training__epochs=3, training__patience=9)
    history = trainer.history
    trainer(training__epochs=2, training__patience=9)
    assert "to another training; starting from scratch" in trainer.output.getvalue()
    assert [epoch["loss"] for epoch in trainer.history] == [epoch["loss"] for epoch in history[:2]]


def test_file_in_place_of_checkpoint_folder_is_an_error(trainer: Trainer) -> None:
    (trainer.folder / "checkpoints").write_text("a note")
    with pytest.raises(PipelineError, match=r"saved in .*checkpoints: File exists\. Move away"):
        trainer()
    assert trainer.output.getvalue() == ""
    assert (trainer.folder / "checkpoints").read_text() == "a note"


def test_damaged_checkpoint_state_is_an_error(trainer: Trainer) -> None:
    trainer(training__epochs=1)
    (folder,) = (trainer.folder / "checkpoints").iterdir()
    (folder / "state.json").write_text('{"key": ')
    with pytest.raises(PipelineError, match=r"state\.json is damaged: .* Remove .*step-0"):
        trainer(training__epochs=1)


def test_one_number_alone_can_be_trained(trainer: Trainer) -> None:
    """The gradient of a single column, in parts."""
    only = ["user_id", "item_id", "clicked_items"]
    model = {"name": "logistic_regression", "exclude": only}
    weights = trainer(model=model, training__epochs=1).get_weights()
    assert all(np.isfinite(weight).all() for weight in weights)
