"""Training in several workers on a Ray cluster: the same processes as started by hand.

Ray finds the machines and watches over the workers. Each runs `recsys-attn train` with its own
TF_CONFIG in a process of its own, as TensorFlow wants to be the first to start threads and a
training that is asked to stop wants the main thread for its signal.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import ray
from ray.exceptions import GetTimeoutError, RayError
from rich.console import Console

from pipelines.engines.ray_cluster import ENVIRONMENT, connected
from pipelines.errors import PipelineError

_POLL = 0.2  # seconds
_PATIENCE = 60.0  # seconds; what is left of the workers after the first has failed is ended then
_START = 120.0  # seconds for the cluster to make room for the workers


class State(NamedTuple):
    """What a worker has printed since it was last asked, and how it ended, if it has."""

    printed: str
    code: int | None
    error: str


class Worker:
    """Starts one training worker beside itself and tells how it fares."""

    def address(self) -> str:
        """`host:port` for the other workers; the port is kept until the process starts."""
        self._port = socket.socket()
        self._port.bind(("", 0))
        return f"{ray.util.get_node_ip_address()}:{self._port.getsockname()[1]}"

    def start(self, arguments: Sequence[str], folder: str, tf_config: Mapping[str, Any]) -> None:
        """Starts the process, in a folder."""
        self._files = tempfile.TemporaryDirectory()
        self._output, self._errors = (Path(self._files.name) / name for name in ("out", "err"))
        self._read = 0
        environment = {**os.environ, "TF_CONFIG": json.dumps(tf_config)}
        environment.pop("OMP_NUM_THREADS", None)  # Ray sets it to 1
        self._port.close()
        with self._output.open("w") as output, self._errors.open("w") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "pipelines", *arguments],
                stdout=output,
                stderr=errors,
                env=environment,
                cwd=folder if os.path.isdir(folder) else None,
            )

    def state(self) -> State:
        """What is new."""
        code = self._process.poll()
        with self._output.open(encoding="utf-8") as output:
            output.seek(self._read)
            printed = output.read()
            self._read = output.tell()
        return State(printed, code, self._errors.read_text(encoding="utf-8") if code else "")

    def stop(self) -> None:
        """Asks the training to save itself and end."""
        self._process.terminate()

    def kill(self) -> None:
        """Ends the process, if it has not ended."""
        self._process.kill()
        self._process.wait()
        self._files.cleanup()


def train(arguments: Sequence[str], workers: int, address: str, console: Console) -> None:
    """Runs `recsys-attn` with some arguments in several workers that train together.

    Args:
        arguments: Those of `recsys-attn train` by hand. Files must be where every worker finds
            them: on this machine, or on shared storage.
        workers: How many; each on a machine of its own while there are enough.
        address: The cluster, as of `connected`.
        console: Where the first worker's lines are printed.

    Raises:
        PipelineError: A worker has failed, or the cluster has no room.
    """
    with connected(address), contextlib.ExitStack() as stack:
        actors = _actors(workers)
        for actor in actors:
            stack.callback(_end, actor)
        cluster = {"worker": _addresses(actors)}
        started = [
            actor.start.remote(
                arguments,
                os.getcwd(),
                {"cluster": cluster, "task": {"type": "worker", "index": index}},
            )
            for index, actor in enumerate(actors)
        ]
        ray.get(started)
        try:
            _watch(actors, console)
        except KeyboardInterrupt:
            ray.get([actor.stop.remote() for actor in actors])
            with contextlib.suppress(PipelineError):  # each says that it was stopped
                _watch(actors, console)
            raise


def _actors(workers: int) -> list[Any]:
    """The workers, each with an equal share of the cluster's GPUs."""
    resources = ray.cluster_resources()
    if resources.get("CPU", 0) < workers:
        raise PipelineError(
            "--workers: expected at most one for each CPU of the Ray cluster, which has "
            f"{resources.get('CPU', 0):.0f}. Received: {workers}"
        )
    actor = ray.remote(
        num_cpus=1,
        num_gpus=int(resources.get("GPU", 0)) // workers,
        scheduling_strategy="SPREAD",
        runtime_env=ENVIRONMENT,
    )(Worker)
    return [actor.remote() for _ in range(workers)]


def _addresses(actors: Sequence[Any]) -> list[str]:
    try:
        return ray.get([actor.address.remote() for actor in actors], timeout=_START)
    except GetTimeoutError:
        raise PipelineError(
            f"The Ray cluster has found no room for {len(actors)} workers in {_START:.0f} seconds: "
            "its CPUs or GPUs are in use, or no machine has enough of them. Take fewer --workers."
        ) from None


def _end(actor: Any) -> None:
    """Ends a worker and its process, wherever they are."""
    with contextlib.suppress(RayError):  # it may be gone already
        ray.get(actor.kill.remote())
    ray.kill(actor)


def _watch(actors: Sequence[Any], console: Console) -> None:
    """Prints the first worker's lines until all have ended; raises the first failure's error."""
    failed, deadline = "", float("inf")
    while True:
        states = ray.get([actor.state.remote() for actor in actors])
        console.print(states[0].printed, end="", markup=False, soft_wrap=True)
        for index, state in enumerate(states):
            if state.code and not failed:
                failed = sentence(index, len(states), state)
                deadline = time.monotonic() + _PATIENCE
        if all(state.code is not None for state in states) or time.monotonic() > deadline:
            break
        time.sleep(_POLL)
    if failed:
        raise PipelineError(failed)


def sentence(index: int, count: int, state: State) -> str:
    """Why a worker has failed: its own sentence, or what else is known."""
    own = re.search(r"^Error: (.*)", state.error, re.MULTILINE | re.DOTALL)
    if own:
        return own[1].rstrip()
    last = "".join(f": {line}" for line in state.error.strip().splitlines()[-1:])
    return (
        f"Worker {index} of {count} ended with exit code {state.code}{last}. Start again: training "
        "goes on from the last checkpoint."
    )
