"""The client for asyncio."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

import grpc

from serving.client.base import ClientBase
from serving.client.call import Calls, Rpc
from serving.client.connection import Channels
from serving.client.methods import Methods
from serving.common.errors import FailedPrecondition, ServingError
from serving.common.tls import authorization

P = ParamSpec("P")
T = TypeVar("T")


def _awaited(
    calls_of: Callable[Concatenate[Methods, P], Calls[T]],
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    @functools.wraps(calls_of)
    async def method(client: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await client._run(calls_of(client._methods, *args, **kwargs))

    return method


class AsyncClient(ClientBase):
    """`Client` with awaitable methods; it belongs to the event loop of its first call.

    Cancelling a task cancels its call at the server. A `token` may be an async function.

    Example:
        >>> async def rank():
        ...     async with AsyncClient(["10.0.0.1:8500", "10.0.0.2:8500"], model="ctr") as client:
        ...         return await client.rank({"user": "ann"}, [{"price": 1.5}, {"price": 2.0}])
        >>> asyncio.run(rank())["click"].shape
        (2,)
    """

    predict = _awaited(Methods.predict)
    predict_rows = _awaited(Methods.predict_rows)
    rank = _awaited(Methods.rank)
    explain = _awaited(Methods.explain)
    push = _awaited(Methods.push)
    classify = _awaited(Methods.classify)
    regress = _awaited(Methods.regress)
    metadata = _awaited(Methods.metadata)
    status = _awaited(Methods.status)
    health = _awaited(Methods.health)
    reload = _awaited(Methods.reload)

    def _start(self) -> None:
        self._channels: Channels | None = None  # in the event loop of the first call
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections and cancels running calls."""
        self._is_closed = True
        for channel in () if self._channels is None else self._channels.channels:
            await channel.close()

    async def _run(self, steps: Calls[T]) -> T:
        try:
            call = next(steps)
            while True:
                try:
                    response = await self._send(call)
                except ServingError as error:
                    call = steps.throw(error)
                else:
                    call = steps.send(response)
        except StopIteration as end:
            return end.value

    async def _send(self, call: Rpc) -> Any:
        if self._is_closed:
            raise self._connection.closed(call)
        if self._channels is None:
            self._loop = asyncio.get_running_loop()
            self._channels = self._connection.open(grpc.aio)
        if self._loop is not asyncio.get_running_loop():
            raise FailedPrecondition("The client belongs to another event loop. Make one for each.")
        headers, token = call.invocation.headers, self._connection.token
        if token is not None:
            value = token() if callable(token) else token
            headers += (authorization(await value if inspect.isawaitable(value) else value),)
        try:
            return await self._channels.methods[call.method](
                call.request, timeout=call.invocation.remaining(), metadata=headers
            )
        except grpc.RpcError as error:
            raise self._connection.failure(call, error, is_closed=self._is_closed) from error
        except (asyncio.CancelledError, grpc.aio.UsageError) as error:
            # `close` cancels calls but not their tasks; a cancelled task must stay cancelled.
            task = asyncio.current_task()
            if not self._is_closed or (task is not None and task.cancelling()):
                raise
            raise self._connection.closed(call) from error
