"""One process that serves: its start, its signals, and its end without a lost request."""

from __future__ import annotations

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
    """A server that has something to serve and answers nobody yet, and its port for gRPC.

    It may have nothing where it never looks for versions, which a reload brings, and where a
    backend computes, which may come later. A signal ends the process at once: nobody waits.

    Raises:
        ServingError: Nothing can be served, or the port is taken.
    """
    with signals.ending(_end_early):
        return _loaded(config, log_format)


def _loaded(config: ServerConfig, log_format: str) -> tuple[Server, int]:
    import_tensorflow_quietly()
    from serving.server.server import create_server

    set_up(log_format)
    server, port = create_server(config)
    if config.file_system_poll_wait_seconds >= 0 and not config.backend:
        for versions in server.manager.models.values():
            versions.require_available()
    return server, port


def serve(server: Server, started: Callable[[], object], signals: Signals) -> None:
    """Serves until a signal, drains, and ends the process. To be called in the main thread.

    What outlasts the drain, such as a version that still loads, is not waited for.

    Args:
        server: What serves.
        started: Called once it answers.
        signals: Those that end it. After the first one, Ctrl-C ends it at once.
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
    """Has gRPC log nothing, if it is not imported yet: its errors reach us as exceptions."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")


def import_tensorflow_quietly() -> None:
    """Its remarks on the processor and missing GPUs go past every logger to descriptor 2."""
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
    _LOGGER.info("%s: ended before it served", signal.Signals(number).name)
    _end(128 + number if number == signal.SIGINT else 0)


def _end(status: int = 0) -> None:
    """Python's own end waits for every thread, of which one may compute or load for minutes."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
