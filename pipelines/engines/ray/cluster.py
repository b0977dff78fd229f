"""The connection to a Ray cluster, and readable messages for Ray's errors."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import ray.data
from ray.exceptions import RayError, RayTaskError

from pipelines.common.errors import PipelineError

# A keras.json on the worker's machine may name another backend, and TensorFlow may leave out there
# the operations with which this process computes.
ENVIRONMENT = {
    "env_vars": {
        "KERAS_BACKEND": "tensorflow",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        **{name: value for name, value in os.environ.items() if name == "TF_ENABLE_ONEDNN_OPTS"},
    }
}
_PATIENCE = 5.0  # seconds; Ray itself retries an unreachable address for minutes


@contextlib.contextmanager
def connected(address: str) -> Iterator[None]:
    """Connects while the block runs, unless this process is connected already.

    Args:
        address: `auto` for the cluster of this machine, `local` for a new one of this machine's
            cores that ends with the block, or the `host:port` that `ray start --head` printed.
    """
    with _errors():
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
            ray.data.DataContext.get_current()  # created once, with deprecated options
        if ray.is_initialized():
            yield
            return
        _init(address)
        try:
            yield
        finally:
            ray.shutdown()


def _init(address: str) -> None:
    host, separator, port = address.rpartition(":")
    if address not in ("auto", "local") and not (separator and host and port.isdecimal()):
        raise PipelineError(
            "--ray-address: expected auto, local or host:port, as `ray start --head` printed it. "
            f"Received: {address}"
        )
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no telemetry
    alone: dict[str, Any] = {"include_dashboard": False} if address == "local" else {}
    try:
        if separator:
            socket.create_connection((host, int(port)), _PATIENCE).close()
        with _same_signals():
            ray.init(address, log_to_driver=False, logging_level=logging.ERROR, **alone)
    except (OSError, RuntimeError, ValueError) as error:
        raise PipelineError(
            f"--ray-address: no Ray cluster can be used at {address}: {_line(error)}. Start one "
            "with `ray start --head`, or use --ray-address local."
        ) from None


@contextlib.contextmanager
def _same_signals() -> Iterator[None]:
    """Restores the SIGTERM handler that `ray.init` replaces, and repeats a signal it received."""
    before, terminated = signal.getsignal(signal.SIGTERM), False
    try:
        yield
    except SystemExit:  # raised by Ray's handler
        terminated = True
        raise
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)
            if terminated:
                signal.raise_signal(signal.SIGTERM)


@contextlib.contextmanager
def _errors() -> Iterator[None]:
    """Re-raises a user's error of a worker as itself, and a lost worker as a `PipelineError`."""
    try:
        yield
    except RayTaskError as error:
        if isinstance(error.cause, (PipelineError, OSError)):
            raise error.cause from None
        raise
    except RayError as error:
        raise lost_process(error) from None


def lost_process(error: BaseException) -> PipelineError:
    """The error for a process that Ray has lost."""
    return PipelineError(
        f"A process on the Ray cluster is gone ({type(error).__name__}): it was killed, or ran out "
        "of memory. Free some memory or start Ray with fewer CPUs, and run the same command again."
    )


def _line(error: BaseException) -> str:
    """The first line of an error, to be put into a sentence."""
    return str(error).strip().splitlines()[0].rstrip(".") if str(error) else type(error).__name__
