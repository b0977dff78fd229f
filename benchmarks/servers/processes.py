"""Processes that answer: started, waited for, and asked what they cost the processor."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
_TICKS = os.sysconf("SC_CLK_TCK")
_QUIET = {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3"}


class Process:
    """A module of Python that runs until `stop`.

    Args:
        module: Its name.
        arguments: What its command line says.
        log: File for its standard error.
    """

    def __init__(self, module: str, *arguments: str, log: Path) -> None:
        self._log = log
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                cwd=ROOT,
                env=os.environ | _QUIET,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def ask(self, question: Any) -> Any:
        """The line that it prints for a line, both JSON."""
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("The process was started without pipes.")
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline() or self._fail())

    def require_running(self) -> None:
        """Raises with its last output if it has ended."""
        if self._process.poll() is not None:
            self._fail()

    def finish(self) -> None:
        """Waits for its end; raises if it failed."""
        if self._process.wait():
            self._fail()

    def stop(self) -> None:
        """Ends it."""
        self._process.terminate()
        self._process.communicate()

    def processor_seconds(self) -> float:
        """Returns the processor seconds of it and of the processes that it started."""
        return processor_seconds(self._process.pid)

    def _fail(self) -> str:
        words = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        raise RuntimeError("\n".join(words[-5:]) or f"It ended with {self._process.returncode}.")


def free_address() -> str:
    """Returns a free address of this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def processor_seconds(pid: int) -> float:
    """Returns the processor seconds of a process and of those that it started."""
    return sum(_own_seconds(one) for one in _family(pid))


def _family(pid: int) -> Iterator[int]:
    yield pid
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text(encoding="utf-8").split():
            yield from _family(int(child))


def _own_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
