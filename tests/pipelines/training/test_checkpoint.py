"""Checkpoints: atomic, few, and checked for damage."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pipelines.common.errors import PipelineError
from pipelines.training.checkpoint import Checkpoints

ARRAYS = {"model/0": np.arange(6.0).reshape(2, 3), "optimizer/0": np.array(7, "int64")}


def save(checkpoints: Checkpoints, step: int, best: int | None = None) -> None:
    checkpoints.save(step, ARRAYS.items(), {"step": step}, best)


def test_the_last_and_the_best_stay(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=2)
    for step, best in ((5, 5), (10, 5), (15, 5), (20, 5)):
        save(checkpoints, step, best)
    assert [checkpoint.step for checkpoint in checkpoints.all()] == [5, 15, 20]
    save(checkpoints, 25, 25)
    assert [checkpoint.step for checkpoint in checkpoints.all()] == [20, 25]


def test_interrupted_save_keeps_other_checkpoints(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    save(checkpoints, 1)

    def cut_off() -> Iterator[tuple[str, np.ndarray]]:
        yield "model/0", np.zeros(5)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        checkpoints.save(2, cut_off(), {}, None)
    assert [checkpoint.step for checkpoint in checkpoints.all()] == [1]
    # What a process leaves that is killed while it writes is no checkpoint either.
    shutil.copytree(checkpoints.at(1).folder, tmp_path / ".step-000000000002.new")
    assert [checkpoint.step for checkpoint in checkpoints.all()] == [1]
    checkpoints.prepare()
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000000001"]


def test_damaged_checkpoint_is_an_error(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    save(checkpoints, 1)
    path = checkpoints.at(1).folder / "variables.npz"
    content = bytearray(path.read_bytes())
    content[content.index(np.float64(5).tobytes())] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(PipelineError, match=r"npz is damaged: .* Remove .*step-0+1 .* --force\."):
        dict(checkpoints.at(1).arrays())
    os.truncate(path, 100)
    with pytest.raises(PipelineError, match=r"variables\.npz is damaged"):
        dict(checkpoints.at(1).arrays())
