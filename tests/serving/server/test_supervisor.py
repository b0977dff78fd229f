"""The parent of several processes, which here serve nothing: who starts, dies, and ends whom."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.serving.commands import ROOT
from tests.serving.conftest import wait_until

Run = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Starts a supervisor of two processes that do as they are told; waits until it started."""
    started = []

    def start(*does: str, waits: bool = True) -> subprocess.Popen[str]:
        for number, what in enumerate(does):
            (tmp_path / f"{number}").write_text(what)
        parent = subprocess.Popen(
            [sys.executable, "-m", "tests.serving.server.fake_processes", str(tmp_path)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
        )  # fmt: skip
        started.append(parent)
        if waits and parent.stdout is not None:
            assert parent.stdout.readline() == "started\n"
        return parent

    yield start
    for parent in started:
        parent.kill()
        parent.communicate()


def _pid(folder: Path, number: int) -> int:
    return int((folder / f"{number}.pid").read_text() or 0)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _drained(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.drained"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda n: n.name)
def test_a_signal_drains_all_and_then_the_parent_ends_well(
    run: Run, tmp_path: Path, number: signal.Signals
) -> None:
    parent = run("serve", "serve")
    parent.send_signal(number)
    assert parent.wait(10) == 0
    assert _drained(tmp_path) == ["0.drained", "1.drained"]


def test_a_second_ctrl_c_ends_all_at_once(run: Run, tmp_path: Path) -> None:
    parent = run("hang", "hang")
    parent.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        parent.wait(0.3)
    parent.send_signal(signal.SIGINT)
    assert parent.wait(2) == 128 + signal.SIGINT
    wait_until(lambda: not any(_lives(_pid(tmp_path, number)) for number in (0, 1)))


def test_one_that_dies_is_replaced_and_the_other_stays(run: Run, tmp_path: Path) -> None:
    parent = run("serve", "serve")
    before = [_pid(tmp_path, number) for number in (0, 1)]
    os.kill(before[1], signal.SIGKILL)
    wait_until(lambda: _pid(tmp_path, 1) not in (0, before[1]))
    assert _pid(tmp_path, 0) == before[0]
    parent.terminate()
    assert parent.wait(10) == 0
    assert _drained(tmp_path) == ["0.drained", "1.drained"]


def test_the_wait_doubles_while_the_successors_die_too(run: Run, tmp_path: Path) -> None:
    parent = run("serve", "serve")
    (tmp_path / "1").write_text("die")
    os.kill(_pid(tmp_path, 1), signal.SIGKILL)
    said = [line.strip() for line, _ in zip(_after_the_start(parent), range(3), strict=False)]
    assert said == [
        "Process 1: It ended with status -9. The next starts in 0.1 s",
        "Process 1: It ended with status 7. The next starts in 0.2 s",
        "Process 1: It ended with status 7. The next starts in 0.4 s",
    ]
    assert parent.poll() is None


def _after_the_start(parent: subprocess.Popen[str]) -> Iterator[str]:
    return (line for line in parent.stderr or () if "answers" not in line)


@pytest.mark.parametrize(
    ("does", "words"), [("refuse", "Nothing to serve."), ("die", "It ended with status 7.")]
)
def test_one_that_cannot_start_ends_all_with_its_words(
    run: Run, tmp_path: Path, does: str, words: str
) -> None:
    parent = run("serve", does, waits=False)
    _, errors = parent.communicate(timeout=10)
    assert parent.returncode == 1
    assert errors.splitlines()[-1] == words
    pid = tmp_path / "0.pid"
    wait_until(lambda: not pid.is_file() or not _lives(_pid(tmp_path, 0)))


def test_all_drain_when_the_parent_is_killed(run: Run, tmp_path: Path) -> None:
    parent = run("serve", "serve")
    parent.kill()
    wait_until(lambda: _drained(tmp_path) == ["0.drained", "1.drained"])
