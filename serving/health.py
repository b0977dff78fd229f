"""The standard gRPC health service: truthful for each model and, as "", for all of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

import grpc
from grpc_health.v1 import health, health_pb2

from serving.workers import answered_promptly

_STATUS = health_pb2.HealthCheckResponse
Send = Callable[[health_pb2.HealthCheckResponse | None], None]


class Health(health.HealthServicer):
    """NOT_SERVING until every model has a version available, and again once draining."""

    def __init__(self) -> None:
        super().__init__()
        self._reported: dict[str, bool] = {}  # used by the one thread that polls
        # Guards `_watches` and `_is_draining`; never held while something is sent.
        self._watch_lock = threading.Lock()
        self._watches: set[Send] = set()
        self._is_draining = False
        self.is_serving = False  # as a whole
        self.set(health.OVERALL_HEALTH, _STATUS.NOT_SERVING)

    def report(self, available: Mapping[str, bool]) -> None:
        """Takes over which model is available; watches hear of changes only."""
        overall = bool(available) and all(available.values())
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
        self.enter_graceful_shutdown()
        self.is_serving = False
        with self._watch_lock:
            self._is_draining = True
            watches = list(self._watches)
        for send in watches:
            send(None)

    def Watch(
        self,
        request: health_pb2.HealthCheckRequest,
        context: grpc.ServicerContext,
        send_response_callback: Send | None = None,
    ) -> None:
        if send_response_callback is None:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "Watch needs a non-blocking server.")
            return
        answer = send_response_callback

        def send(response: health_pb2.HealthCheckResponse | None) -> None:
            if response is None:  # the end, which gRPC takes once
                with self._watch_lock:
                    if send not in self._watches:
                        return
                    self._watches.remove(send)
            answer(response)

        with self._watch_lock:
            self._watches.add(send)
        super().Watch(request, context, send)
        if self._is_draining:
            send(None)

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
