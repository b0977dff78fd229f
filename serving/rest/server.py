"""The REST API's own thread and its end."""

from __future__ import annotations

import socket
import ssl
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import uvicorn

from serving.config_files import Certificates
from serving.errors import Unavailable
from serving.rest.app import Rest

_KEEP_ALIVE_SECONDS = 75


class RestServer:
    """Serves the REST API in a thread of its own.

    Args:
        rest: What it answers.
        host: Address to listen on.
        port: Its port.
        certificates: For TLS; None for none.
        grace_seconds: Time that running requests have to finish at the end.
        shares_port: Whether other processes listen on the same port.

    Raises:
        Unavailable: The address cannot be listened on.
    """

    def __init__(
        self,
        rest: Rest,
        host: str,
        port: int,
        certificates: Certificates | None,
        grace_seconds: float,
        shares_port: bool = False,
    ) -> None:
        self._socket = _listen(host, port, shares_port)
        config = uvicorn.Config(
            rest.app(),
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=max(1, round(grace_seconds)),
        )
        config.load()
        if certificates is not None:
            config.ssl = tls_context(certificates)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="rest", daemon=True)

    @property
    def port(self) -> int:
        return int(self._socket.getsockname()[1])

    def start(self) -> None:
        """Answers from now on."""
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            time.sleep(0.005)

    def stop(self) -> None:
        """Refuses what is new and lets what runs finish."""
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join()
        self._socket.close()

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])


def tls_context(certificates: Certificates) -> ssl.SSLContext:
    """How TLS is spoken; Python reads certificates from files alone, so there are some briefly."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    with tempfile.TemporaryDirectory() as folder:
        both = Path(folder) / "both.pem"
        both.touch(mode=0o600)
        both.write_bytes(certificates.certificate + b"\n" + certificates.key)
        context.load_cert_chain(both)
    if certificates.client_authority:
        context.load_verify_locations(cadata=certificates.client_authority.decode())
        context.verify_mode = ssl.CERT_REQUIRED if certificates.client_verify else ssl.CERT_OPTIONAL
    return context


def _listen(host: str, port: int, shares_port: bool) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found: Any = socket.socket(family, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shares_port:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        found.bind((host, port))
    except OSError as error:
        found.close()
        raise Unavailable(
            f"Cannot listen on {host}:{port} for REST: {error.strerror}. Choose another "
            "`rest_api_port` or host."
        ) from error
    return found
