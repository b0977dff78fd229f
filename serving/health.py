"""The standard gRPC health service: truthful for each model and, as "", for all of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from concurrent import futures

import grpc
from grpc_health.v1 import health, health_pb2

from serving.workers import answered_promptly

_STATUS = health_pb2.HealthCheckResponse
_MOST_WATCHES = 1000  # at a time; a thread each, and those beyond wait for one


class Health(health.HealthServicer):
    """NOT_SERVING until every model has a version available, and again once draining.

    A server that was ready stays so while the models that served go on: one that is new in its
    configuration and does not load is NOT_SERVING itself, and takes no other out of rotation.

    A watch has a thread of its own. The one of gRPC's servicer has none: it sends while it holds
    the lock that the end of any other watch needs too, in the thread that all calls come in by,
    so that two watches may hold up the whole server for ever.
    """

    def __init__(self) -> None:
        super().__init__(
            experimental_non_blocking=False,
            experimental_thread_pool=futures.ThreadPoolExecutor(_MOST_WATCHES, "health-watch"),
        )
        # Used by the one thread that reports.
        self._reported: dict[str, bool] = {}
        self._have_served: set[str] = set()
        self._was_ready = False
        # Has gRPC's own lock of the statuses; never held while something is sent.
        self._changed = threading.Condition(self._lock)
        self._is_draining = False
        self.is_serving = False  # as a whole
        self.set(health.OVERALL_HEALTH, _STATUS.NOT_SERVING)

    def set(self, service: str, status: int) -> None:
        """Sets the status of a model; watches hear of it."""
        with self._changed:
            super().set(service, status)
            self._changed.notify_all()

    def report(self, available: Mapping[str, bool]) -> None:
        """Takes over which model is available; watches hear of changes only."""
        self._have_served |= {name for name, serving in available.items() if serving}
        counted = available.keys() & self._have_served if self._was_ready else available.keys()
        overall = bool(counted) and all(available[name] for name in counted)
        self._was_ready |= overall
        self.is_serving = overall and not self._is_draining
        for name in self._reported.keys() - available.keys() - {health.OVERALL_HEALTH}:
            self.set(name, _STATUS.SERVICE_UNKNOWN)  # it was taken out
            del self._reported[name]
        for name, serving in {**available, health.OVERALL_HEALTH: overall}.items():
            if self._reported.get(name) != serving:
                self.set(name, _STATUS.SERVING if serving else _STATUS.NOT_SERVING)
                self._reported[name] = serving

    def drain(self) -> None:
        """Turns everything NOT_SERVING for good and ends the watches, which never end alone."""
        self.is_serving = False
        self.enter_graceful_shutdown()
        with self._changed:
            self._is_draining = True
            self._changed.notify_all()

    def Watch(
        self, request: health_pb2.HealthCheckRequest, context: grpc.ServicerContext
    ) -> Iterator[health_pb2.HealthCheckResponse]:
        context.add_callback(self._wake)
        told = None
        while (status := self._next_status(request.service, told, context)) is not None:
            yield _STATUS(status=status)
            told = status

    def _next_status(
        self, service: str, told: int | None, context: grpc.ServicerContext
    ) -> int | None:
        """The status once it is another than the one told; None at the end of the watch."""
        with self._changed:
            while context.is_active():
                status = self._server_status.get(service, _STATUS.SERVICE_UNKNOWN)
                if status != told:
                    return status
                if self._is_draining:
                    break
                self._changed.wait()
        return None

    def _wake(self) -> None:
        """Has the watches look whether somebody still waits for them."""
        with self._changed:
            self._changed.notify_all()

    @answered_promptly
    def Check(
        self, request: health_pb2.HealthCheckRequest, context: grpc.ServicerContext
    ) -> health_pb2.HealthCheckResponse:
        with self._lock:
            status = self._server_status.get(request.service)
        if status is None:
            context.abort(grpc.StatusCode.NOT_FOUND, f"No model is named {request.service!r}.")
        return _STATUS(status=status)

    @answered_promptly
    def List(
        self, request: health_pb2.HealthListRequest, context: grpc.ServicerContext
    ) -> health_pb2.HealthListResponse:
        response = health_pb2.HealthListResponse()
        with self._lock:
            for name, status in self._server_status.items():
                response.statuses[name].status = status
        return response
