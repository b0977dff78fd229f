"""The command `serve` as a process of its own."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parents[2]
COMMAND = "from serving.cli import serve; serve()"
_ADDRESS = re.compile(r"Listening on (\S+) \(gRPC\)(?:, \S+:(\d+) \(REST\))?")


class Command:
    """Starts a server on a free port; `listens` waits until it answers.

    Args:
        log: File for its standard error.
        options: Its options.
    """

    def __init__(self, log: Path, **options: Any) -> None:
        settings = {"port": 0, "grace_seconds": 20, **options}
        arguments = [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]
        self.log = log
        with log.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-c", COMMAND, *arguments],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=ROOT,
                env={**os.environ, "COLUMNS": "200"},
            )
        self.output: IO[str] = self.process.stdout or sys.stdin
        self.address, self.rest_port = "", 0

    def listens(self) -> Command:
        for line in self.output:
            found = _ADDRESS.search(line)
            if found is not None:
                self.address, self.rest_port = found[1], int(found[2] or 0)
                return self
        raise RuntimeError(f"The server did not start: {self.log.read_text()}")

    def end(self) -> None:
        """Kills the process if it still runs."""
        self.process.kill()
        self.process.wait()
        self.output.close()


def free_port() -> int:
    """A free port, for options that do not take 0."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
