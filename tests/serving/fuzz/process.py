"""The server under test: a process of its own, with all that a server can have switched on."""

from __future__ import annotations

import contextlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.serving.exports import install
from tests.serving.fuzz.generate import MAX_MESSAGE_BYTES
from tests.serving.fuzz.requests import MODEL, SPARE, VERSION
from tests.serving.fuzz.values import MAX_CANDIDATES

TOKEN = "open-sesame"
_ROOT = Path(__file__).parents[3]
_COMMAND = (  # a signal shows what every thread does
    "import faulthandler, signal; faulthandler.register(signal.SIGUSR1); "
    "from serving.cli import serve; serve()"
)
_STOP_SECONDS = 30.0
_LOG_BYTES = 64 * 2**20


@dataclass(frozen=True)
class ServerProcess:
    """A running server.

    Args:
        running: The process.
        grpc_port, rest_port: Where it listens.
        log: File with what it says.
        token: What it wants to see; any will do where empty.
    """

    running: subprocess.Popen[bytes]
    grpc_port: int
    rest_port: int
    log: Path
    token: str = ""

    @property
    def is_alive(self) -> bool:
        return self.running.poll() is None

    def megabytes(self) -> float:
        """Memory that it holds."""
        status = Path(f"/proc/{self.running.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        return int(found[1]) / 1024 if found else 0.0

    def stop(self) -> str:
        """Ends it, as an orchestrator does; returns what was wrong with its end."""
        self.running.terminate()
        try:
            code = self.running.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.running.send_signal(signal.SIGUSR1)
            time.sleep(1.0)
            return f"it did not end within {_STOP_SECONDS:.0f} s of SIGTERM: {self.last_words()}"
        return f"it ended with {code}: {self.last_words()}" if code else ""

    def last_words(self) -> str:
        return self.log.read_text(errors="replace")[-4000:]


def install_models(exported: Path, folder: Path) -> Path:
    """Puts the tiny model in twice; returns the folder of both."""
    folder.mkdir()
    for name in (MODEL, SPARE):
        install(exported, folder / name, VERSION)
    return folder


@contextlib.contextmanager
def start_server(base_path: Path, folder: Path, token: str = "") -> Iterator[ServerProcess]:
    """Runs a server until the block ends.

    Args:
        base_path: Folder of the models.
        folder: For its files.
        token: What it wants to see.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rest_port = _free_port()
    log = folder / "server.log"
    arguments = _arguments(base_path, folder, rest_port, token)
    with log.open("wb") as sink, subprocess.Popen(
        [sys.executable, "-c", _COMMAND, *arguments], stdout=sink, stderr=sink, cwd=_ROOT
    ) as running:  # fmt: skip
        try:
            yield ServerProcess(running, _port(running, log), rest_port, log, token)
        finally:
            running.kill()
    shutil.rmtree(folder / "predictions", ignore_errors=True)


def _arguments(base_path: Path, folder: Path, rest_port: int, token: str) -> list[str]:
    models, monitoring, tokens = (folder / n for n in ("models", "monitoring", "tokens"))
    configs = "".join(
        f'config {{ name: "{name}" base_path: "{base_path / name}" }}\n' for name in (MODEL, SPARE)
    )
    models.write_text(f"model_config_list {{\n{configs}}}")
    monitoring.write_text("prometheus_config { enable: true }")
    tokens.write_text(token)
    options = {
        "model_config_file": models,
        "port": 0,
        "rest_api_port": rest_port,
        "enable_batching": True,
        "monitoring_config_file": monitoring,
        "prediction_log_dir": folder / "predictions",
        "prediction_log_sampling_rate": 1.0,
        "prediction_log_max_bytes": _LOG_BYTES,
        "max_message_bytes": MAX_MESSAGE_BYTES,
        "rest_api_max_body_bytes": MAX_MESSAGE_BYTES,
        "max_candidates": MAX_CANDIDATES,
        "grace_seconds": 5,
        **({"auth_token_file": tokens} if token else {}),
    }
    return [f"--{name}={value}" for name, value in options.items()]


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _port(running: subprocess.Popen[bytes], log: Path, seconds: float = 120.0) -> int:
    end = time.monotonic() + seconds
    while time.monotonic() < end and running.poll() is None:
        found = re.search(r"Listening on \S+:(\d+) ", log.read_text(errors="replace"))
        if found is not None:
            return int(found[1])
        time.sleep(0.05)
    raise RuntimeError(f"The server does not listen: {log.read_text(errors='replace')[-2000:]}")
