"""The REST API's own thread and its end."""

from __future__ import annotations

import asyncio
import socket
import threading
import time

import uvicorn

from serving.config.files import Certificates
from serving.rest.app import Rest
from serving.rest.protocol import Http
from serving.rpc.security import tls_context


class RestServer:
    """Serves the REST API in a thread of its own.

    Args:
        rest: What it answers.
        bound: The socket of its address, which does not listen yet.
        certificates: For TLS; None for none.
        grace_seconds: Time that running requests have to finish at the end.
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
            http=Http,
            timeout_graceful_shutdown=max(1, round(grace_seconds)),
        )
        config.load()
        if certificates is not None:
            config.ssl = tls_context(certificates)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="rest", daemon=True)

    def start(self) -> None:
        """Answers from now on."""
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            time.sleep(0.005)

    def close(self) -> None:
        """Lets nobody connect any more, and ends each connection after the answer it waits for."""
        if self._server.started and self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()

    def stop(self) -> None:
        """Closes, and waits for what runs, as long as the grace lasts."""
        self.close()
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join()
        self._socket.close()

    async def _close(self) -> None:
        for listener in self._server.servers:
            listener.close()
        for connection in list(self._server.server_state.connections):
            connection.shutdown()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=self._server.config.get_loop_factory()) as runner:
            self._loop = runner.get_loop()
            runner.run(self._server.serve(sockets=[self._socket]))
