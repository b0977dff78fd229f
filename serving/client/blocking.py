"""The client that waits for its answers."""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

import grpc

from serving.client.call import Call, Steps
from serving.client.connection import Line
from serving.client.plans import Plans
from serving.client.settings import Configured
from serving.common.errors import ServingError
from serving.common.tls import authorization

P = ParamSpec("P")
T = TypeVar("T")


def _blocking(
    plan: Callable[Concatenate[Plans, P], Steps[T]],
) -> Callable[Concatenate[Client, P], T]:
    @functools.wraps(plan)
    def method(client: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return client._run(plan(client._plans, *args, **kwargs))

    return method


class Client(Configured):
    """Talks to scoring servers about one model; threads may share it.

    Its arguments are those of `Configured`. Every method takes `timeout`, `request_id` and
    `metadata` too, and raises the subclass of `ServingError` that fits the answer:
    `Unavailable` where no server answers, `DeadlineExceeded`, `NotFound`, `InvalidArgument`,
    and `InvalidFeature` where a value cannot be right, before anything is sent. The `request_id`
    of an error finds the request in the servers' logs.

    Example:
        with Client("localhost:8500", model="ctr") as client:
            scores = client.rank({"user_id": "u7"}, [{"item_id": "i1"}, {"item_id": "i2"}])
            scores["click"]  # (2,)
    """

    predict = _blocking(Plans.predict)
    predict_rows = _blocking(Plans.predict_rows)
    rank = _blocking(Plans.rank)
    explain = _blocking(Plans.explain)
    classify = _blocking(Plans.classify)
    regress = _blocking(Plans.regress)
    metadata = _blocking(Plans.metadata)
    status = _blocking(Plans.status)
    health = _blocking(Plans.health)
    reload = _blocking(Plans.reload)

    def _start(self) -> None:
        self._lock = threading.Lock()  # held by who opens and closes lines
        self._lines: weakref.WeakSet[Line] = weakref.WeakSet()  # those from before a change too
        self._line: Line | None = None  # that of new calls; None once closed
        self._open()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connections, and the calls that still run."""
        with self._lock:
            self._line, lines = None, list(self._lines)
        for line in lines:
            line.channel.close()

    def _run(self, steps: Steps[T]) -> T:
        try:
            call = next(steps)
            while True:
                try:
                    response = self._send(call)
                except ServingError as error:
                    call = steps.throw(error)
                else:
                    call = steps.send(response)
        except StopIteration as end:
            return end.value

    def _send(self, call: Call) -> Any:
        line = self._line
        if line is None:
            raise self._connection.closed(call)
        if self._connection.target.is_due():
            threading.Thread(target=self._look_up, daemon=True).start()
        token, headers = self._connection.token, call.invocation.headers
        if token is not None:
            headers += (authorization(token() if callable(token) else token),)
        try:
            return line.methods[call.method](
                call.request, timeout=call.invocation.remaining(), metadata=headers
            )
        except grpc.RpcError as error:
            raise self._connection.failure(call, error, is_closed=self._line is None) from error
        except ValueError as error:  # gRPC's for a channel that was closed meanwhile
            if self._line is not None:
                raise
            raise self._connection.closed(call) from error

    def _look_up(self) -> None:
        if self._connection.target.refresh():
            with self._lock:
                if self._line is not None:
                    self._open()

    def _open(self) -> None:
        self._line = self._connection.open(grpc)
        self._lines.add(self._line)
