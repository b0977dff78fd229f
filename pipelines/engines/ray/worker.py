"""The function that Ray Train runs in each worker: it starts the same process as by hand.

It needs a process of its own: TensorFlow must be the first to start threads, and a training
receives its stop signal in the main thread.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import ray.train
from ray.train.backend import Backend, BackendConfig

from pipelines.engines.ray.status_board import Command, WorkerStatus

_POLL = 0.2  # seconds
_PORT = ExitStack()  # keeps the port of this worker until its process starts


class TfConfigBackend(BackendConfig):
    """Sets TF_CONFIG as Ray Train's own `TensorflowConfig` does, but without TensorFlow.

    Ray's class imports TensorFlow into the command line, the controller and every Ray worker.
    """

    @property
    def backend_cls(self) -> type[Backend]:
        """The hook that runs once the workers have started."""
        return _TfConfigSetup


class _TfConfigSetup(Backend):
    def on_start(self, worker_group: Any, backend_config: BackendConfig) -> None:
        addresses = worker_group.execute(_address)
        for index in range(len(addresses)):
            worker_group.execute_single(index, _configure, addresses, index)


def _address() -> str:
    """Returns the `host:port` at which the other workers reach this one."""
    port = _PORT.enter_context(socket.socket())
    port.bind(("", 0))
    return f"{ray.util.get_node_ip_address()}:{port.getsockname()[1]}"


def _configure(addresses: Sequence[str], index: int) -> None:
    task = {"type": "worker", "index": index}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": addresses}, "task": task})


class WorkerJob(NamedTuple):
    """The arguments of `recsys-attn`, its working directory, and the status board's actor."""

    arguments: Sequence[str]
    folder: str
    board: Any


def run_worker(config: dict[str, WorkerJob]) -> None:
    """Runs the `job`'s process with the current TF_CONFIG and obeys the board's commands.

    Raises:
        RuntimeError: The process failed; the board has the reason.
    """
    job = config["job"]
    index = ray.train.get_context().get_world_rank()
    process = WorkerProcess(job.arguments, job.folder)
    try:
        while True:
            state = process.state()
            command = ray.get(job.board.report.remote(index, state))
            if command is Command.END:
                break
            if command is Command.STOP:
                process.stop()
            time.sleep(_POLL)
    finally:  # also if the status board, and with it the command line, has ended
        process.kill()
    if state.code:
        raise RuntimeError(f"exit code {state.code}")


class WorkerProcess:
    """One training worker."""

    def __init__(self, arguments: Sequence[str], folder: str) -> None:
        self._files = tempfile.TemporaryDirectory()
        self._output, self._errors = (Path(self._files.name) / name for name in ("out", "err"))
        self._read = 0
        self._stopping = False
        environment = dict(os.environ)
        environment.pop("OMP_NUM_THREADS", None)  # Ray sets it to 1
        environment["PYTHONIOENCODING"] = "utf-8:replace"
        _PORT.close()
        with self._output.open("w") as output, self._errors.open("w") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "pipelines", *arguments],
                stdout=output,
                stderr=errors,
                env=environment,
                cwd=folder if os.path.isdir(folder) else os.sep,  # and not in Ray's own
            )

    def state(self) -> WorkerStatus:
        """The output since the last call, and the exit code."""
        code = self._process.poll()
        # Output may hold invalid bytes, and the last character may be half written.
        with self._output.open(encoding="utf-8", errors="replace") as output:
            output.seek(self._read)
            printed = output.read()
            self._read = output.tell()
        errors = self._errors.read_text("utf-8", "replace") if code else ""
        return WorkerStatus(printed, code, errors)

    def stop(self) -> None:
        """Asks the training, once, to save a checkpoint and end."""
        if not self._stopping:
            self._process.terminate()
        self._stopping = True

    def kill(self) -> None:
        """Ends the process if it is still running."""
        self._process.kill()
        self._process.wait()
        self._files.cleanup()
