"""What Ray Train runs in each of its workers: the same process as started by hand.

It is a process of its own, as TensorFlow wants to be the first to start threads and a training
that is asked to stop wants the main thread for its signal.
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

from pipelines.engines.ray.board import Order, State

_POLL = 0.2  # seconds
_PORT = ExitStack()  # keeps the port of this worker until its process starts


class MultiWorker(BackendConfig):
    """Has Ray Train set TF_CONFIG as its `TensorflowConfig` does.

    That one imports TensorFlow into the command, into the process that watches over the workers
    and beside each of them.
    """

    @property
    def backend_cls(self) -> type[Backend]:
        """What is done when the workers have started."""
        return _Addresses


class _Addresses(Backend):
    def on_start(self, worker_group: Any, backend_config: BackendConfig) -> None:
        addresses = worker_group.execute(_address)
        for index in range(len(addresses)):
            worker_group.execute_single(index, _configure, addresses, index)


def _address() -> str:
    """`host:port` of this worker for the others."""
    port = _PORT.enter_context(socket.socket())
    port.bind(("", 0))
    return f"{ray.util.get_node_ip_address()}:{port.getsockname()[1]}"


def _configure(addresses: Sequence[str], index: int) -> None:
    task = {"type": "worker", "index": index}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": addresses}, "task": task})


class Job(NamedTuple):
    """The arguments of `recsys-attn`, the folder to start it in, and the board's actor."""

    arguments: Sequence[str]
    folder: str
    board: Any


def follow(config: dict[str, Job]) -> None:
    """Runs the process of the `job` with the TF_CONFIG that there is, as the board says.

    Raises:
        RuntimeError: It has failed; the board knows why.
    """
    job = config["job"]
    index = ray.train.get_context().get_world_rank()
    process = Process(job.arguments, job.folder)
    try:
        while True:
            state = process.state()
            order = ray.get(job.board.tell.remote(index, state))
            if order is Order.END:
                break
            if order is Order.STOP:
                process.stop()
            time.sleep(_POLL)
    finally:  # also where the board, and so the command that asked for all this, is gone
        process.kill()
    if state.code:
        raise RuntimeError(f"exit code {state.code}")


class Process:
    """One training worker."""

    def __init__(self, arguments: Sequence[str], folder: str) -> None:
        self._files = tempfile.TemporaryDirectory()
        self._output, self._errors = (Path(self._files.name) / name for name in ("out", "err"))
        self._read = 0
        self._stopping = False
        environment = dict(os.environ)
        environment.pop("OMP_NUM_THREADS", None)  # Ray sets it to 1
        environment["PYTHONIOENCODING"] = "utf-8:replace"  # whatever the machine's own is
        _PORT.close()
        with self._output.open("w") as output, self._errors.open("w") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "pipelines", *arguments],
                stdout=output,
                stderr=errors,
                env=environment,
                cwd=folder if os.path.isdir(folder) else os.sep,  # and not in Ray's own
            )

    def state(self) -> State:
        """What is new."""
        code = self._process.poll()
        # A library's bytes may be no text, and the last character may be half written.
        with self._output.open(encoding="utf-8", errors="replace") as output:
            output.seek(self._read)
            printed = output.read()
            self._read = output.tell()
        errors = self._errors.read_text("utf-8", "replace") if code else ""
        return State(printed, code, errors)

    def stop(self) -> None:
        """Asks the training to save itself and end, once."""
        if not self._stopping:
            self._process.terminate()
        self._stopping = True

    def kill(self) -> None:
        """Ends the process, if it has not ended."""
        self._process.kill()
        self._process.wait()
        self._files.cleanup()
