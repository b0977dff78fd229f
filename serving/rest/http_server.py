"""The HTTP server of the REST API, in a thread of its own. It imports no TensorFlow."""

from __future__ import annotations

import socket
import threading
import time

import uvicorn
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from serving.common.errors import Unavailable, still_starting
from serving.config.files import Certificates
from serving.rpc.security import tls_context


class RestServer:
    """Serves the REST API in a thread of its own.

    Args:
        bound: A bound socket that does not listen yet.
        certificates: For TLS; None serves plain HTTP.
        grace_seconds: Time for running requests to finish after `stop`.

    Attributes:
        app: The application, which may be set after `start`; until then requests get 503.
    """

    def __init__(
        self,
        bound: socket.socket,
        certificates: Certificates | None,
        grace_seconds: float,
    ) -> None:
        self.app: ASGIApp = _starting
        self._socket = bound
        self.port = int(bound.getsockname()[1])
        config = uvicorn.Config(
            self._answer,
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            http="h11",
            interface="asgi3",  # uvicorn takes a bound method for an older one
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

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)


def bound(host: str, port: int, option: str) -> socket.socket:
    """Returns a bound socket that does not listen yet.

    Args:
        host: Address of this machine.
        port: 0 takes a free one.
        option: Name of the option that sets the port, for the error.

    Raises:
        Unavailable: The port is in use, or the host is not an address of this machine.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound_socket = socket.socket(family, kind, protocol)
        bound_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound_socket.bind(address)
        except OSError:
            bound_socket.close()
            raise
    except OSError as error:
        raise Unavailable(
            f"Cannot listen on {host}:{port}: {error.strerror}. Choose another `{option}` or host."
        ) from error
    return bound_socket


async def _starting(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers as a server whose models are not known yet."""
    answers: dict[str, Response] = {
        "/healthz": PlainTextResponse("ok\n"),
        "/readyz": PlainTextResponse("not ready: starting\n", 503),
    }
    other = JSONResponse({"error": str(still_starting())}, 503)
    await answers.get(scope["path"], other)(scope, receive, send)
