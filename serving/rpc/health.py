"""The standard gRPC health service: truthful for each model and, as "", for all of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from concurrent import futures

import grpc
from grpc_health.v1 import health, health_pb2

from serving.inference.concurrency import answered_promptly

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
        # `_lock` is gRPC's own, of the statuses; never held while something is sent.
        self._watches = set[threading.Event]()  # one each: the end of one wakes no other
        self._is_draining = False
        self.is_serving = False  # as a whole
        self.set(health.OVERALL_HEALTH, _STATUS.NOT_SERVING)

    def set(self, service: str, status: int) -> None:
        """Sets the status of a model; watches hear of it."""
        with self._lock:
            super().set(service, status)
            self._wake_all()

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
        with self._lock:
            self._is_draining = True
            self._wake_all()

    def Watch(
        self, request: health_pb2.HealthCheckRequest, context: grpc.ServicerContext
    ) -> Iterator[health_pb2.HealthCheckResponse]:
        woken, told = threading.Event(), None
        with self._lock:
            self._watches.add(woken)
        context.add_callback(woken.set)
        try:
            while (status := self._next_status(request.service, told, context, woken)) is not None:
                yield _STATUS(status=status)
                told = status
        finally:
            with self._lock:
                self._watches.discard(woken)

    def _next_status(
        self,
        service: str,
        told: int | None,
        context: grpc.ServicerContext,
        woken: threading.Event,
    ) -> int | None:
        """The status once it is another than the one told; None at the end of the watch."""
        while True:
            woken.clear()
            with self._lock:
                status = self._server_status.get(service, _STATUS.SERVICE_UNKNOWN)
                is_over = self._is_draining
            if not context.is_active():
                return None
            if status != told:
                return int(status)
            if is_over:
                return None
            woken.wait()

    def _wake_all(self) -> None:
        for woken in tuple(self._watches):
            woken.set()

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
