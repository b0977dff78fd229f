"""The standard gRPC health service, with a status for each model and for the server."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

OVERALL = ""  # the name that the protocol gives the whole server

_STATUS = health_pb2.HealthCheckResponse


class Health(health_pb2_grpc.HealthServicer):
    """NOT_SERVING until every model has a version available, and again while draining.

    A server that was ready stays ready while the models that have served go on serving. A new
    model that fails to load is NOT_SERVING itself and takes no other out of rotation. Until the
    first report the names of the models are not known, so every name is NOT_SERVING.
    """

    def __init__(self) -> None:
        # Guards all that follows. Never held while a message is sent: gRPC ends calls in the
        # thread that also completes sends, and the end of a watch needs this lock.
        self._lock = threading.Lock()
        self._statuses: dict[str, int] = {OVERALL: _STATUS.NOT_SERVING}
        self._other: int = _STATUS.NOT_SERVING  # status of any other name
        self._watches = set[_Watch]()
        self._have_served = set[str]()
        self._was_ready = False
        self._is_draining = False

    @property
    def is_serving(self) -> bool:
        """Whether the whole server is SERVING."""
        with self._lock:
            return self._statuses[OVERALL] == _STATUS.SERVING

    def report(self, available: Mapping[str, bool]) -> None:
        """Updates the status of each model, and notifies the watches of changes."""
        with self._lock:
            if self._is_draining:
                return
            self._have_served |= {name for name, serving in available.items() if serving}
            models = available.keys() & self._have_served if self._was_ready else available.keys()
            overall = bool(models) and all(available[name] for name in models)
            self._was_ready |= overall
            self._other = _STATUS.SERVICE_UNKNOWN
            self._statuses = {
                name: _STATUS.SERVING if serving else _STATUS.NOT_SERVING
                for name, serving in {**available, OVERALL: overall}.items()
            }
            watches = tuple(self._watches)
        for watch in watches:
            watch.update()

    def drain(self) -> None:
        """Sets everything to NOT_SERVING permanently, and ends the watches."""
        with self._lock:
            self._is_draining = True
            self._statuses = dict.fromkeys(self._statuses, _STATUS.NOT_SERVING)
            watches = tuple(self._watches)
        for watch in watches:
            watch.update()
            watch.end()

    def Check(
        self, request: health_pb2.HealthCheckRequest, context: grpc.ServicerContext
    ) -> health_pb2.HealthCheckResponse:
        status = self._status(request.service)
        if status == _STATUS.SERVICE_UNKNOWN:
            context.abort(grpc.StatusCode.NOT_FOUND, f"No model is named {request.service!r}.")
        return _STATUS(status=status)

    def List(
        self, request: health_pb2.HealthListRequest, context: grpc.ServicerContext
    ) -> health_pb2.HealthListResponse:
        with self._lock:
            statuses = {name: _STATUS(status=status) for name, status in self._statuses.items()}
        return health_pb2.HealthListResponse(statuses=statuses)

    def Watch(
        self,
        request: health_pb2.HealthCheckRequest,
        context: grpc.ServicerContext,
        send_response_callback: Callable[[Any], object],
    ) -> None:
        watch = _Watch(functools.partial(self._status, request.service), send_response_callback)
        with self._lock:
            self._watches.add(watch)
            is_draining = self._is_draining
        if not context.add_callback(functools.partial(self._forget, watch)):
            self._forget(watch)  # the call has ended already
        watch.update()
        if is_draining:
            watch.end()

    # As in gRPC's own servicer: an open watch holds no thread of the server's pool.
    vars(Watch)["experimental_non_blocking"] = True

    def _status(self, service: str) -> int:
        with self._lock:
            return self._statuses.get(service, self._other)

    def _forget(self, watch: _Watch) -> None:
        with self._lock:
            self._watches.discard(watch)


class _Watch:
    """One open call of Watch.

    Args:
        status: Returns the present status.
        send: Sends a response; None ends the call.
    """

    def __init__(self, status: Callable[[], int], send: Callable[[Any], object]) -> None:
        self._status, self._send = status, send
        self._lock = threading.Lock()  # guards `_sent`; held while sending: one message at a time
        self._sent: int | None = None

    def update(self) -> None:
        """Sends the status if it has changed."""
        with self._lock:
            status = self._status()
            if status != self._sent:
                self._send(_STATUS(status=status))
                self._sent = status

    def end(self) -> None:
        """Ends the call."""
        with self._lock:
            self._send(None)
