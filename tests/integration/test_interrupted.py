"""Ctrl-C, SIGTERM and SIGKILL: finished steps stay, and the next run continues."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.commands import hidden_or_half, invoke, start
from tests.support.experiments import QUICK, write

LONG = ("--set", "training.epochs=100000", "--set", "training.patience=100000")
HUGE = ("--set", "data.simulate.rows=100000000")
INTERRUPTED = "Interrupted. Finished steps are kept; run the same command to continue from there.\n"
CTRL_C, TERM = (signal.SIGINT, 130), (signal.SIGTERM, 143)
KILL = (signal.SIGKILL, -signal.SIGKILL)


def _interrupt(
    ending: signal.Signals, code: int, when: Callable[[], bool], *arguments: str | Path
) -> None:
    """Ends a command as soon as `when` is true."""
    with start(*arguments) as process:
        deadline = time.monotonic() + 120
        while not when() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(ending)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == code, errors
    assert errors == ("" if ending == signal.SIGKILL else INTERRUPTED)


@pytest.mark.parametrize(
    ("ending", "code"), [CTRL_C, pytest.param(*KILL, marks=pytest.mark.thorough)]
)
def test_interrupted_training_keeps_finished_steps(
    tmp_path: Path, prepared: Path, ending: signal.Signals, code: int
) -> None:
    run = Path(shutil.copytree(prepared, tmp_path / "run"))
    experiment = write(tmp_path, QUICK)
    checkpoints = run / "checkpoints"
    arguments = ("run", experiment, "--run-dir", run)
    _interrupt(ending, code, lambda: any(checkpoints.glob("step-*")), *arguments, *LONG)

    assert not (run / "model").exists()
    if ending != signal.SIGKILL:
        assert hidden_or_half(run) == []
    assert "fit: unchanged, skipped" in invoke("fit", experiment, "--run-dir", run).stdout
    if ending == signal.SIGKILL:
        result = invoke("train", experiment, "--run-dir", run)
        assert result.exit_code == 0, result.output
        assert "train: done" in result.stdout
        assert hidden_or_half(run) == []


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("ending", "code"), [pytest.param(*TERM, marks=pytest.mark.thorough), KILL]
)
def test_interrupted_ingest_keeps_the_last_data(
    tmp_path: Path, prepared: Path, ending: signal.Signals, code: int
) -> None:
    run = Path(shutil.copytree(prepared, tmp_path / "run"))
    experiment = write(tmp_path)
    half = run / ".data.new" / "train" / "part-00000.parquet"
    arguments = ("ingest", experiment, "--run-dir", run)
    _interrupt(ending, code, half.exists, *arguments, *HUGE)

    assert half.exists() == (ending == signal.SIGKILL)
    assert "ingest: unchanged, skipped" in invoke(*arguments).stdout
    assert hidden_or_half(run) == []
