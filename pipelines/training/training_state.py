"""The state of a training, and how it is saved and loaded."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import keras

from pipelines.common.errors import PipelineError
from pipelines.experiment.loop_options import LoopOptions
from pipelines.feed import Position
from pipelines.storage.footers import Footers
from pipelines.training.checkpoint import Checkpoint, Checkpoints
from pipelines.training.history import History
from pipelines.training.optimizer import kind_of
from pipelines.training.tower_mode import TowerMode

TASK_WEIGHTS = "task_weights/"  # begins the names of their variables


@dataclass
class TrainingProgress:
    """The progress of a training; a checkpoint holds it beside the variables.

    Attributes:
        step: Steps taken.
        position: Position in the data, with a place for each shard.
        loss, rows, seconds, waited: Of the epoch so far: the sum of the steps' losses times their
            rows, rows, seconds, and seconds of waiting for input.
        epochs: Metrics of the finished epochs.
        best_step: TrainStep at the end of the best epoch.
        versions: Versions of the packages that took the steps; several after an upgrade.
    """

    step: int = 0
    position: Position = field(default_factory=Position)
    loss: float = 0.0
    rows: int = 0
    seconds: float = 0.0
    waited: float = 0.0
    epochs: list[dict[str, Any]] = field(default_factory=list)
    best_step: int | None = None
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def epoch(self) -> int:
        """Number of the epoch, from 0."""
        return self.position.epoch

    @property
    def epoch_is_done(self) -> bool:
        """Whether only the validation of the epoch is left."""
        return self.epoch > len(self.epochs)

    def go_on_with(self, versions: Mapping[str, str]) -> None:
        """Adds the versions of the packages that take the next steps."""
        for package, version in versions.items():
            before = self.versions.setdefault(package, version)
            if version not in before.split(", "):
                self.versions[package] = f"{before}, {version}"

    def end_epoch(self, metrics: dict[str, Any], better: bool) -> None:
        """Adds an epoch's metrics and resets its sums."""
        self.epochs.append(metrics)
        self.loss, self.rows, self.seconds, self.waited = 0.0, 0, 0.0, 0.0
        if better:
            self.best_step = self.step

    def to_dict(self) -> dict[str, Any]:
        """Plain data; `from_dict` reads it."""
        return {**vars(self), "position": self.position.to_dict()}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> TrainingProgress:
        """The progress that `to_dict` wrote."""
        return cls(**{**values, "position": Position.from_dict(values["position"])})


@dataclass(frozen=True)
class Saver:
    """Saves variables and progress, and loads them.

    Args:
        checkpoints: The checkpoints of the run folder.
        key: Identifies the training; checkpoints with another key are ignored.
        model: The model; its random states are saved too.
        optimizer: Built for the model.
        options: Training options; a checkpoint with more epochs than they allow is ignored.
        shards: Number of shards of the data; must not change while a training continues.
        data: The footers of the training data, which must not change either.
        tower: The mode of the tower, for a training that continues.
        task_weights: The state of learned weights of tasks.
        more: Further layers that training changes, and no export has.
    """

    checkpoints: Checkpoints
    key: str
    model: keras.Model
    optimizer: keras.optimizers.Optimizer
    options: LoopOptions
    shards: int
    data: Footers
    tower: TowerMode
    task_weights: Sequence[keras.Variable] = ()
    more: Sequence[keras.layers.Layer] = ()

    def save(self, progress: TrainingProgress) -> None:
        """Saves a checkpoint."""
        arrays = ((name, keras.ops.convert_to_numpy(v)) for name, v in self._all())
        state = {
            "key": self.key,
            "shards": self.shards,
            "optimizer": kind_of(self.optimizer),
            "data": self.data.fingerprint,
            "tower": self.tower._asdict(),
            "progress": progress.to_dict(),
        }
        self.checkpoints.save(progress.step, arrays, state, progress.best_step)

    def newest(self) -> Checkpoint | None:
        """The last checkpoint, if it belongs to this training."""
        newest = self.checkpoints.newest
        state = newest.state if newest else {}
        if state.get("key") != self.key or self._is_longer(state):
            return None
        if state["shards"] != self.shards:
            raise PipelineError(
                f"`training.shards`: the training in {self.checkpoints.folder} has "
                f"{state['shards']}, and this one has {self.shards}: as many as devices and "
                f"workers unless set. Set `training.shards = {state['shards']}` to go on, or give "
                "the run another folder with --run-dir."
            )
        self.data.check_fingerprint(state["data"])
        return newest

    def _is_longer(self, state: dict[str, Any]) -> bool:
        return History(state["progress"]["epochs"], self.options).overrun

    def load(self, checkpoint: Checkpoint) -> TrainingProgress:
        """Restores all variables from a checkpoint."""
        variables = dict(self._all())
        for name, array in checkpoint.arrays():
            variables[name].assign(array)
        return TrainingProgress.from_dict(checkpoint.state["progress"])

    def variables(self) -> Iterator[tuple[str, keras.Variable]]:
        """The variables of model and optimizer, by their names in a checkpoint."""
        for index, variable in enumerate(self.model.variables):
            yield f"model/{index}", variable
        for index, variable in enumerate(self.optimizer.variables):
            yield f"optimizer/{index}", variable

    def _all(self) -> Iterator[tuple[str, keras.Variable]]:
        """All variables: also the weights of the tasks, which a warm start begins anew."""
        yield from self.variables()
        for index, variable in enumerate(self.task_weights):
            yield f"{TASK_WEIGHTS}{index}", variable
        for number, layer in enumerate(self.more):
            for index, variable in enumerate(layer.variables):
                yield f"more/{number}/{index}", variable


def table_of(variable: keras.Variable) -> str | None:
    """Name of the embedding table that a variable of model or optimizer belongs to."""
    match = re.search(r"table_\d+(_to_\d+)?", variable.path)
    return match[0] if match else None


def saved_tower(checkpoints: Checkpoints, key: str) -> TowerMode | None:
    """Returns the tower's mode of the last checkpoint; None without one of this training."""
    newest = checkpoints.newest
    state = newest.state if newest else {}
    mode = state.get("tower") if state.get("key") == key else None
    return TowerMode(**mode) if mode else None
