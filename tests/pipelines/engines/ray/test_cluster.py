"""Connecting to a Ray cluster and disconnecting."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from tests.integration.commands import invoke
from tests.support.experiments import write

pytestmark = pytest.mark.xdist_group("ray")
CODE = """
import signal, sys
from pipelines.engines import choose_engine
from tests.support.engines import appending, joined

handler = lambda *arguments: None
signal.signal(signal.SIGTERM, handler)
engine = choose_engine("ray", sys.argv[1])
print(*sorted(engine.map_ordered(appending, "x")))
print(engine.map_reduce(appending, "y", joined, lambda batch: None))
print(signal.getsignal(signal.SIGTERM) is handler, "tensorflow" in sys.modules)
"""


@pytest.mark.thorough
def test_a_process_connects_twice_and_keeps_its_signals(cluster: str) -> None:
    found = subprocess.run(
        [sys.executable, "-W", "error", "-c", CODE, cluster], capture_output=True, text=True
    )
    assert (found.stdout, found.stderr, found.returncode) == ("x1\ny1\nTrue False\n", "", 0)


def test_sigterm_while_connecting_is_an_interrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray has a handler of its own then, which ends the process without a word."""
    ray = pytest.importorskip("ray", reason="Ray is not installed: `make ray` adds it")

    def init(*arguments: object, **options: object) -> NoReturn:
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(number))
        signal.raise_signal(signal.SIGTERM)
        raise AssertionError("the signal was ignored")

    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    result = invoke("train", write(tmp_path), "--engine", "ray")
    assert (result.exit_code, result.stdout) == (128 + signal.SIGTERM, "")
    assert result.stderr.startswith("Interrupted. ")
