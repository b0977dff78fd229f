"""Checkpoints of a training: each whole or not at all; the last few and the best are kept."""

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
    """One checkpoint: every variable of model and optimizer, and plain data beside them."""

    folder: Path

    @property
    def step(self) -> int:
        """How many steps had been taken."""
        return int(self.folder.name.removeprefix("step-"))

    @property
    def state(self) -> dict[str, Any]:
        """Position in the data, metrics so far, and what else is no variable."""
        return read_json(self.folder / _STATE, self._advice)

    def arrays(self) -> Iterator[tuple[str, np.ndarray]]:
        """The variables by name, one in memory at a time. Checksums tell a damaged file."""
        path = self.folder / _ARRAYS
        try:
            # NumPy leaves a file open that it cannot read.
            with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                for name in arrays.files:
                    yield name, arrays[name]
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            raise PipelineError(f"{path} is damaged: {error}. {self._advice}") from None

    @property
    def _advice(self) -> str:
        return (
            f"Remove {self.folder}, and training goes on from the checkpoint before it; where "
            "there is none, or this was the best, train anew with --force."
        )


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of one training.

    Args:
        folder: Where they lie, one folder each.
        keep: How many of the last stay; the best stays besides.
    """

    folder: Path
    keep: int = 2

    def all(self) -> list[Checkpoint]:
        """The oldest first."""
        found = [Checkpoint(p) for p in self.folder.glob("step-*") if _NAME.fullmatch(p.name)]
        return sorted(found, key=lambda checkpoint: checkpoint.step)

    @property
    def newest(self) -> Checkpoint | None:
        """The one to go on from."""
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
        """Writes a checkpoint, and then removes those that are neither recent nor the best.

        Args:
            step: How many steps have been taken.
            arrays: The variables by name, asked for one at a time.
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
        """Makes the folder, and removes what a process left that was killed while it wrote."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise PipelineError(
                f"Checkpoints cannot be saved in {self.folder}: {error.strerror}. Move away what "
                "is there, or give the run another folder with --run-dir."
            ) from None
        for left in self.folder.glob(".step-*"):
            shutil.rmtree(left, ignore_errors=True)

    def clear(self) -> None:
        """Removes all of them."""
        shutil.rmtree(self.folder, ignore_errors=True)
