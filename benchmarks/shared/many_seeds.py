"""Several seeds of one model that JAX trains at once, and a process for each model."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.shared import command_line


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


def record(
    epoch: int,
    losses: np.ndarray,
    monitored: Sequence[float],
    best: np.ndarray,
    running: np.ndarray,
    times: tuple[float, float],
) -> dict[str, Any]:
    """Returns the record of an epoch, by seed.

    Args:
        epoch: Its number.
        losses: Mean losses.
        monitored: The metric of the validation rows.
        best: The best epochs so far.
        running: Which seeds go on.
        times: When the epoch began, and when its training ended.
    """
    begin, trained = times
    return {
        "epoch": epoch,
        "loss": losses.tolist(),
        "monitored": list(monitored),
        "best": best.tolist(),
        "running": int(running.sum()),
        "seconds": trained - begin,
        "validation": time.perf_counter() - trained,
    }


def say(name: str, epoch: Mapping[str, Any]) -> None:
    """Prints the record of an epoch."""
    numbers = " ".join(f"{value:.4f}" for value in epoch["monitored"])
    seconds = f"{epoch['seconds']:.2f} + {epoch['validation']:.2f} s"
    print(f"{name} epoch {epoch['epoch']}: {numbers}  {seconds}", flush=True)


def train_all(
    module: str, parser: argparse.ArgumentParser, one: Callable[[Path, argparse.Namespace], None]
) -> argparse.Namespace:
    """Trains each run in a process of its own, which frees the memory of the GPU.

    Args:
        module: The module, which calls this function in each process again.
        parser: Has the options of the module, `--seeds` among them.
        one: Trains one run and writes its results.

    Returns:
        The options.

    Raises:
        SystemExit: This process trained one run, or a run failed, after all others.
    """
    parser.add_argument("folder", type=Path, help="of the files")
    parser.add_argument("--out", type=Path, required=True, help="folder of the results")
    command_line.several(parser, "--runs", "", str, "their files' names, in this order; all")
    parser.add_argument("--workers", type=int, default=1, help="runs at a time (1)")
    parser.add_argument("--epochs", type=int, help="at most; default: those of the run")
    parser.add_argument("--seconds", type=float, default=1e9, help="after which no epoch starts")
    parser.add_argument("--deadline", type=float, help=argparse.SUPPRESS)  # of one run alone
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run is not None:
        one(options.run, options)
        raise SystemExit(0)
    options.out.mkdir(parents=True, exist_ok=True)
    names = options.runs or sorted(path.stem for path in options.folder.glob("*.json"))
    deadline = time.time() + options.seconds
    command = [sys.executable, "-m", module, *sys.argv[1:], "--deadline", str(deadline)]
    apart = {"KERAS_BACKEND": "jax", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}

    def start(name: str) -> bool:
        if time.time() > deadline:
            print(f"{name}: not started, the time is up", flush=True)
            return True
        run = [*command, "--run", str(options.folder / f"{name}.json")]
        process = subprocess.run(run, env={**os.environ, **apart})
        if process.returncode:
            print(f"{name}: failed with {process.returncode}", flush=True)
        return process.returncode == 0

    with ThreadPoolExecutor(options.workers) as pool:
        if not all(list(pool.map(start, names))):
            raise SystemExit(1)
    return options
