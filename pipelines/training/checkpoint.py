"""Atomic checkpoints of a training; keeps the last few and the best."""

from __future__ import annotations

import re
import shutil
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.common.artifacts import atomic_directory, read_json, write_json
from pipelines.common.errors import PipelineError

_ARRAYS = "variables.npz"
_STATE = "state.json"
_NAME = re.compile(r"step-\d{12}")


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint: all variables of model and optimizer, and plain data."""

    folder: Path

    @property
    def step(self) -> int:
        """Number of steps taken."""
        return int(self.folder.name.removeprefix("step-"))

    @property
    def state(self) -> dict[str, Any]:
        """The plain data: position in the data, metrics so far."""
        return read_json(self.folder / _STATE, self._advice)

    def arrays(self) -> Iterator[tuple[str, np.ndarray]]:
        """The variables by name, one in memory at a time; checksums reveal damage."""
        path = self.folder / _ARRAYS
        try:
            # NumPy does not close a file that it cannot read.
            with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                for name in arrays.files:
                    yield name, arrays[name]
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            raise PipelineError(f"{path} is damaged: {error}. {self._advice}") from None

    @property
    def _advice(self) -> str:
        return (
            f"Remove {self.folder} to continue from the checkpoint before it; if there is none, "
            "or this was the best, train again with --force."
        )


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of one training.

    Args:
        folder: Folder with a folder for each checkpoint.
        keep: Number of last checkpoints to keep, besides the best.
    """

    folder: Path
    keep: int = 2

    def all(self) -> list[Checkpoint]:
        """All checkpoints, the oldest first."""
        checkpoints = [Checkpoint(p) for p in self.folder.glob("step-*") if _NAME.fullmatch(p.name)]
        return sorted(checkpoints, key=lambda checkpoint: checkpoint.step)

    @property
    def newest(self) -> Checkpoint | None:
        """The last checkpoint."""
        return next(reversed(self.all()), None)

    def at(self, step: int) -> Checkpoint:
        """The checkpoint of a step."""
        return Checkpoint(self.folder / f"step-{step:012d}")

    def save(
        self,
        step: int,
        arrays: Iterable[tuple[str, np.ndarray]],
        state: Mapping[str, Any],
        best: int | None,
    ) -> None:
        """Writes a checkpoint, then removes those that are neither recent nor the best.

        Args:
            step: Number of steps taken.
            arrays: The variables by name.
            state: Plain data.
            best: TrainStep of the best one so far, which may be this.
        """
        with atomic_directory(self.at(step).folder) as folder:
            with zipfile.ZipFile(folder / _ARRAYS, "w", zipfile.ZIP_STORED) as file:
                for name, array in arrays:
                    with file.open(f"{name}.npy", "w", force_zip64=True) as entry:
                        np.lib.format.write_array(entry, array, allow_pickle=False)
            write_json(folder / _STATE, state)
        for old in self.all()[: -self.keep]:
            if old.step != best:
                shutil.rmtree(old.folder)

    def prepare(self) -> None:
        """Creates the folder and removes incomplete checkpoints of killed processes."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise PipelineError(
                f"Checkpoints cannot be saved in {self.folder}: {error.strerror}. Move away what "
                "is there, or give the run another folder with --run-dir."
            ) from None
        for incomplete in self.folder.glob(".step-*"):
            shutil.rmtree(incomplete, ignore_errors=True)

    def clear(self) -> None:
        """Removes all checkpoints."""
        shutil.rmtree(self.folder, ignore_errors=True)
