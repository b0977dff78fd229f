"""The process of the command `serve`: start, signals, drain and exit."""

from __future__ import annotations

import functools
import gc
import importlib
import logging
import os
import platform
import signal
import sys
from typing import TYPE_CHECKING

from serving.config.server_config import ServerConfig
from serving.server.signals import Signals

if TYPE_CHECKING:
    from serving.server.listener import Listener
    from serving.server.server import Server

_LOGGER = logging.getLogger(__name__)
_UNUSED = ("h5py", "jax", "keras", "scipy")  # TensorFlow does without them
SIGNALS = (signal.SIGTERM, signal.SIGINT)


def start_server(config: ServerConfig, signals: Signals) -> tuple[Server, int]:
    """Starts a server, and returns it with its gRPC port once its models are loaded.

    Its ports answer meanwhile, even before TensorFlow is imported. Models must have an available
    version, unless versions come by a reload or from a backend. A signal meanwhile drains the
    server and ends the process.

    Raises:
        ServingError: A model has no version, or the port is in use.
    """
    servers: list[Listener | Server] = []
    with signals.calling(functools.partial(_end_early, servers)):
        return _start_server(config, servers)


def _start_server(config: ServerConfig, servers: list[Listener | Server]) -> tuple[Server, int]:
    from serving.server.listener import Listener

    listener = Listener(config)
    servers.append(listener)
    import_tensorflow_quietly()
    from serving.server.server import create_server

    gc.freeze()  # collections skip the 400,000 objects of the imports, which are never freed
    server, port = create_server(config, listener)
    servers[:] = [server]
    try:
        server.start()
        if config.needs_version_at_start:
            for versions in server.manager.models.values():
                versions.require_available()
    except BaseException:
        server.stop()
        raise
    return server, port


def serve(server: Server, signals: Signals) -> None:
    """Serves until a signal, drains, and ends the process. Call it in the main thread.

    It does not wait for work that outlasts the drain, such as a version that still loads.

    Args:
        server: A server that was started.
        signals: Signals that end it. After the first one, Ctrl-C ends it at once.
    """
    first = signals.wait()
    signals.on_ctrl_c(lambda: os._exit(128 + signal.SIGINT))
    grace = server.config.grace_seconds
    _LOGGER.info("%s: draining for at most %g s", signal.Signals(first).name, grace)
    server.drain()
    _end()


def silence_native_code() -> None:
    """Disables all messages of gRPC's and TensorFlow's C++ code, which are no JSON."""
    os.environ.update({"GRPC_VERBOSITY": "NONE", "TF_CPP_MIN_LOG_LEVEL": "3"})


def silence_grpc() -> None:
    """Disables gRPC's log, if gRPC is not imported yet: its errors are exceptions anyway."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")


def import_tensorflow_quietly() -> None:
    """Imports TensorFlow without its messages on the CPU and missing GPUs, and without Keras.

    It writes them to file descriptor 2, past every logger. Keras and what else TensorFlow imports
    where it is installed take up to half of the time, and serving uses none of it. On older
    processors TensorFlow leaves oneDNN's operations off, with which most models are faster there
    too (`docs/reference/benchmarks.md`).
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if platform.machine() in ("x86_64", "AMD64"):
        os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    sys.stderr.flush()
    standard_error = os.dup(2)
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    blocked = [] if "tensorflow" in sys.modules else [n for n in _UNUSED if n not in sys.modules]
    for name in blocked:
        sys.modules[name] = None  # type: ignore[assignment]  # an import of it fails
    try:
        importlib.import_module("tensorflow")
    finally:
        for name in blocked:
            del sys.modules[name]
        os.dup2(standard_error, 2)
        os.close(standard_error)


def _end_early(servers: list[Listener | Server], number: int) -> None:
    _LOGGER.info("%s: stopped before it was ready", signal.Signals(number).name)
    for one in servers:  # some of its models may serve already
        one.drain()
    _end(128 + number if number == signal.SIGINT else 0)


def _end(status: int = 0) -> None:
    """Ends the process at once; Python would wait for threads that compute or load for minutes."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
