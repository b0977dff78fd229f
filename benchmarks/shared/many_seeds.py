"""Several seeds of one model that JAX trains at once, and a process for each model."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


class State(NamedTuple):
    """The values of a training, by seed: first axis."""

    trained: list[Any]
    fixed: list[Any]
    slots: list[Any]


def stacked(states: Sequence[State]) -> State:
    """Joins the states of seeds."""
    import jax

    return State(*jax.tree.map(lambda *values: jax.numpy.stack(values), *states))


def chosen(better: np.ndarray, new: State, old: State) -> State:
    """Returns the new values of the seeds that are better, and the old ones of the others."""
    import jax

    def choose(x: Any, y: Any) -> Any:
        return jax.numpy.where(better.reshape(-1, *[1] * (x.ndim - 1)), x, y)

    return State(*jax.tree.map(choose, new, old))


def train_all(
    module: str, names: Sequence[str], arguments: Sequence[str], workers: int, seconds: float
) -> None:
    """Trains each run in a process of its own, which frees the memory of the GPU.

    Args:
        module: The module that trains one run where it is given a deadline.
        names: The files of the runs.
        arguments: Further arguments of the module.
        workers: Processes at a time.
        seconds: Seconds after which no epoch starts.

    Raises:
        SystemExit: A run failed, after all others.
    """
    deadline = time.time() + seconds
    command = [sys.executable, "-m", module, *arguments, "--deadline", str(deadline)]
    apart = {"KERAS_BACKEND": "jax", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}

    def start(name: str) -> bool:
        if time.time() > deadline:
            print(f"{Path(name).stem}: not started, the time is up", flush=True)
            return True
        done = subprocess.run([*command, "--run", name], env={**os.environ, **apart})
        if done.returncode:
            print(f"{Path(name).stem}: failed with {done.returncode}", flush=True)
        return done.returncode == 0

    with ThreadPoolExecutor(workers) as pool:
        if not all(list(pool.map(start, names))):
            raise SystemExit(1)
