"""The process of the command `serve`: start, signals, drain and exit."""

from __future__ import annotations

import gc
import importlib
import logging
import os
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from serving.common.logs import set_up
from serving.config.server_config import ServerConfig
from serving.server.signals import Signals

if TYPE_CHECKING:
    from serving.server.server import Server

_LOGGER = logging.getLogger(__name__)
SIGNALS = (signal.SIGTERM, signal.SIGINT)


def loaded(config: ServerConfig, log_format: str, signals: Signals) -> tuple[Server, int]:
    """Creates a server that is ready to start, and returns it with its gRPC port.

    Models must have an available version, unless versions come by a reload or from a backend.
    A signal ends the process at once, since no request has been accepted.

    Raises:
        ServingError: A model has no version, or the port is in use.
    """
    with signals.calling(_end_early):
        return _loaded(config, log_format)


def _loaded(config: ServerConfig, log_format: str) -> tuple[Server, int]:
    import_tensorflow_quietly()
    from serving.server.server import create_server

    set_up(log_format)
    gc.freeze()  # collections skip the 400,000 objects of the imports, which are never freed
    server, port = create_server(config)
    if config.needs_version_at_start:
        for versions in server.manager.models.values():
            versions.require_available()
    return server, port


def serve(server: Server, started: Callable[[], object], signals: Signals) -> None:
    """Serves until a signal, drains, and ends the process. Call it in the main thread.

    It does not wait for work that outlasts the drain, such as a version that still loads.

    Args:
        server: The server to start.
        started: Called once the server accepts requests.
        signals: Signals that end it. After the first one, Ctrl-C ends it at once.
    """
    server.start()
    started()
    first = signals.wait()
    signals.on_ctrl_c(lambda: os._exit(128 + signal.SIGINT))
    grace = server.config.grace_seconds
    _LOGGER.info("%s: draining for at most %g s", signal.Signals(first).name, grace)
    server.drain()
    _end()


def silence_grpc() -> None:
    """Disables gRPC's log, if gRPC is not imported yet: its errors are exceptions anyway."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")


def import_tensorflow_quietly() -> None:
    """Imports TensorFlow without its messages on the CPU and missing GPUs.

    It writes them to file descriptor 2, past every logger.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    silence_grpc()
    sys.stderr.flush()
    kept = os.dup(2)
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        importlib.import_module("tensorflow")
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _end_early(number: int) -> None:
    _LOGGER.info("%s: stopped before it served", signal.Signals(number).name)
    _end(128 + number if number == signal.SIGINT else 0)


def _end(status: int = 0) -> None:
    """Ends the process at once; Python would wait for threads that compute or load for minutes."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
