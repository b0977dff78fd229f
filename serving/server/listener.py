"""The ports of a server, which answer before the server can be imported."""

from __future__ import annotations

import time

import grpc
from starlette.types import ASGIApp

from serving.common.errors import ServingError, shutting_down
from serving.common.request_trace import RequestTrace
from serving.config.files import read_certificates, read_tokens
from serving.config.server_config import ServerConfig
from serving.inference.admission import Admission
from serving.rest.http_server import RestServer, bound
from serving.rpc.gate import Gate, Report, require_room
from serving.rpc.grpc_server import LateHandlers, listen, make_grpc_server
from serving.rpc.health import Health
from serving.rpc.malformed import MalformedRequests
from serving.rpc.security import Access, require_token

_NOTICE_SECONDS = 0.2  # time for clients that watch health, or that retry, to go elsewhere


class Listener:
    """Binds the ports and answers: UNAVAILABLE until `open`, and NOT_SERVING as health.

    The import of TensorFlow, and so of the services, takes seconds. Nothing here imports it.

    Args:
        config: The ports, their limits and their security.

    Attributes:
        is_draining: Whether new calls get UNAVAILABLE, so that clients retry elsewhere. Those that
            were accepted before run to their end.

    Raises:
        ServingError: A file of certificates or tokens is not valid, or a port cannot be used.
    """

    def __init__(self, config: ServerConfig) -> None:
        path = config.ssl_config_file
        self.certificates = read_certificates(path) if path else None
        self.access = _access(config)
        self.health = Health()
        self.handlers = LateHandlers()
        self.is_draining = False
        self.rest: RestServer | None = None
        self._grace = config.grace_seconds
        self._report: Report | None = None
        self._admission: Admission | None = None
        gate = Gate([self._require_no_drain, self._require_token, self._require_room], self._reject)
        interceptors = [gate, MalformedRequests(self._reject)]
        self._grpc = make_grpc_server(config, self.health, self.handlers, interceptors)
        self.port = listen(self._grpc, config, config.port, self.certificates)
        if config.rest_api_port:
            address = bound(config.host, config.rest_api_port, "rest_api_port")
            self.rest = RestServer(address, self.certificates, config.grace_seconds)
            self.rest.start()
        self._grpc.start()

    def open(self, report: Report, admission: Admission, rest: ASGIApp | None) -> None:
        """Lets the services answer.

        Args:
            report: Called for each call that is rejected.
            admission: Decides which requests are served.
            rest: The REST API.
        """
        self._admission = admission
        self._report = report
        self.handlers.open()
        if self.rest is not None and rest is not None:
            self.rest.app = rest

    def drain(self) -> None:
        """Rejects new requests, and gives the running ones `grace_seconds` to finish."""
        self.health.drain()
        self.is_draining = True
        time.sleep(_NOTICE_SECONDS)
        stopped = self._grpc.stop(self._grace)
        if self.rest is not None:
            self.rest.stop()
        stopped.wait()

    def _require_no_drain(self, details: grpc.HandlerCallDetails) -> None:
        if self.is_draining:
            raise shutting_down()

    def _require_token(self, details: grpc.HandlerCallDetails) -> None:
        if not self.access.is_free:
            require_token(self.access, details)

    def _require_room(self, details: grpc.HandlerCallDetails) -> None:
        if self._admission is not None:
            require_room(self._admission, details)

    def _reject(self, trace: RequestTrace, error: ServingError) -> None:
        if self._report is not None:
            self._report(trace, error)


def _access(config: ServerConfig) -> Access:
    scoring, reload, push = (
        read_tokens(path) if path else frozenset[bytes]()
        for path in (config.auth_token_file, config.reload_token_file, config.push_token_file)
    )
    return Access(
        scoring,
        reload,
        config.allow_reload or config.is_local,
        push,
        config.allow_push or config.is_local,
    )
