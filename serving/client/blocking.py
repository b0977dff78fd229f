"""The blocking client."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

import grpc

from serving.client.base import ClientBase
from serving.client.call import Calls, Rpc
from serving.client.methods import Methods
from serving.common.errors import ServingError
from serving.common.tls import authorization

P = ParamSpec("P")
T = TypeVar("T")


def _blocking(
    calls_of: Callable[Concatenate[Methods, P], Calls[T]],
) -> Callable[Concatenate[Client, P], T]:
    @functools.wraps(calls_of)
    def method(client: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return client._run(calls_of(client._methods, *args, **kwargs))

    return method


class Client(ClientBase):
    """A client of scoring servers for one model; threads may share it.

    Its arguments are those of `ClientBase`. Every method also takes `timeout`, `request_id` and
    `metadata`, and raises a subclass of `ServingError`: `Unavailable` if no server answers,
    `DeadlineExceeded`, `NotFound`, `InvalidArgument`, or, before a request is sent,
    `InvalidFeature`. The `request_id` of an error finds the request in the servers' logs.

    Example:
        >>> with Client("localhost:8500", model="ctr") as client:
        ...     scores = client.rank({"user": "ann"}, [{"price": 1.5}, {"price": 2.0}])
        ...     rows = client.predict_rows([{"user": "ann", "price": 1.5}])
        >>> scores["click"].shape, rows["click"].shape
        ((2,), (1,))
    """

    predict = _blocking(Methods.predict)
    predict_rows = _blocking(Methods.predict_rows)
    rank = _blocking(Methods.rank)
    explain = _blocking(Methods.explain)
    push = _blocking(Methods.push)
    classify = _blocking(Methods.classify)
    regress = _blocking(Methods.regress)
    metadata = _blocking(Methods.metadata)
    status = _blocking(Methods.status)
    health = _blocking(Methods.health)
    reload = _blocking(Methods.reload)

    def _start(self) -> None:
        self._channels = self._connection.open(grpc)
        self._is_closed = False

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
        """Closes the connections and cancels running calls."""
        self._is_closed = True
        for channel in self._channels.channels:
            channel.close()

    def _run(self, steps: Calls[T]) -> T:
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

    def _send(self, call: Rpc) -> Any:
        if self._is_closed:
            raise self._connection.closed(call)
        token, headers = self._connection.token, call.invocation.headers
        if token is not None:
            headers += (authorization(token() if callable(token) else token),)
        try:
            return self._channels.methods[call.method](
                call.request, timeout=call.invocation.remaining(), metadata=headers
            )
        except grpc.RpcError as error:
            raise self._connection.failure(call, error, is_closed=self._is_closed) from error
        except ValueError as error:  # gRPC's error for a channel that was closed meanwhile
            if not self._is_closed:
                raise
            raise self._connection.closed(call) from error
