"""The HTTP server of the REST API, in a thread of its own."""

from __future__ import annotations

import socket
import threading
import time

import uvicorn

from serving.config.files import Certificates
from serving.rest.app import Rest
from serving.rpc.security import tls_context


class RestServer:
    """Serves the REST API in a thread of its own.

    Args:
        rest: The application.
        bound: A bound socket that does not listen yet.
        certificates: For TLS; None serves plain HTTP.
        grace_seconds: Time for running requests to finish after `stop`.
    """

    def __init__(
        self,
        rest: Rest,
        bound: socket.socket,
        certificates: Certificates | None,
        grace_seconds: float,
    ) -> None:
        self._socket = bound
        self.port = int(bound.getsockname()[1])
        config = uvicorn.Config(
            rest.app(),
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            http="h11",
            timeout_graceful_shutdown=max(1, round(grace_seconds)),
        )
        config.load()
        if certificates is not None:
            config.ssl = tls_context(certificates)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="rest", daemon=True)

    def start(self) -> None:
        """Starts the server; returns once it listens."""
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            time.sleep(0.005)

    def stop(self) -> None:
        """Accepts no more requests, and waits for the running ones as long as the grace lasts."""
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join()
        self._socket.close()

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])
