"""A follower or a load that is killed anywhere, and started again, ends as one that was not."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from serving.state.online.load import load_state
from serving.state.saved import SavedState
from serving.state.stores.open_store import open_store
from serving.state.stores.store import Change, Store
from tests.serving.state.following.conftest import PAST, Following, blobs, write_files

Make = Callable[..., Following]


class Killed(Exception):
    """The end of the process."""


class Dying:
    """A store whose process is killed at one of its writes: before, in the middle of, or after it.

    Args:
        store: The store.
        step: The number of the step, three for each write.
    """

    def __init__(self, store: Store, step: int) -> None:
        self._store, self._left = store, step

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def write(
        self,
        changes: Sequence[Change],
        notes: Mapping[bytes, bytes],
        expire: int | None = None,
    ) -> list[bool]:
        self._step()
        if self._left == 0:  # as Redis, which writes one cell after the other, and then the notes
            self._store.write(changes[: len(changes) // 2], {}, expire)
        self._step()
        made = self._store.write(changes, notes, expire)
        self._step()
        return made

    def load(
        self, cells: Sequence[Any], values: Sequence[bytes], notes: Mapping[bytes, bytes]
    ) -> None:
        self._step()
        if self._left == 0:
            self._store.load(cells[: len(cells) // 2], values[: len(cells) // 2], {})
        self._step()
        self._store.load(cells, values, notes)
        self._step()

    def _step(self) -> None:
        self._left -= 1
        if self._left == -1:
            raise Killed


def killed_everywhere(run: Callable[[int], object]) -> int:
    """Runs something again and again, killed one step later each time, until it ends."""
    for step in range(10_000):
        try:
            run(step)
        except Killed:
            continue
        return step
    raise AssertionError


def test_follower_killed_at_every_step_ends_equal(
    following: Make, tmp_path: Path, rows: pa.Table, url: str
) -> None:
    write_files(tmp_path / "log", rows, sizes=(31,))
    undisturbed = following("undisturbed")
    undisturbed.catch_up()
    expected = undisturbed.blobs()
    whole = following(url=url)
    steps = killed_everywhere(lambda step: whole.follower(Dying(whole.store, step)).catch_up())
    assert steps > 6
    assert whole.blobs() == expected


def test_load_killed_at_every_step_ends_equal(saved: SavedState, store: Store) -> None:
    expected = {
        (group.fingerprint, key): blob
        for group in saved.definition.groups
        for part in saved.blobs(group)
        for key, blob in zip(*part, strict=True)
    }
    killed_everywhere(lambda step: load_state(saved, Dying(store, step)))
    assert blobs(store, saved) == expected
    assert load_state(saved, store) == 0
    assert load_state(saved, store, force=True) == len(expected)


@pytest.mark.thorough
def test_command_killed_at_random_times_ends_equal(
    following: Make, tmp_path: Path, rows: pa.Table, saved: SavedState
) -> None:
    write_files(tmp_path / "log", rows, sizes=(1,) * (rows.num_rows - PAST - 1))
    undisturbed = following("undisturbed")
    undisturbed.catch_up()
    run = ["state", "follow", str(saved.folder), "--store", f"lmdb:{tmp_path / 'killed'}"]
    run += ["--from", str(tmp_path / "log"), "--dead-letters", str(tmp_path / "dead.jsonl")]
    command = [sys.executable, "-m", "pipelines", *run]
    load_state(saved, open_store(f"lmdb:{tmp_path / 'killed'}"))
    for seed in range(8):
        process = subprocess.Popen(command)
        time.sleep(1.0 + random.Random(seed).random())
        process.kill()
        process.wait()
    subprocess.run([*command, "--once"], check=True)
    assert blobs(open_store(f"lmdb:{tmp_path / 'killed'}"), saved) == undisturbed.blobs()
