"""The client for asyncio."""

from __future__ import annotations

import asyncio
import functools
import inspect
import weakref
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

import grpc

from serving.client.call import Call, Steps
from serving.client.connection import Line
from serving.client.plans import Plans
from serving.client.settings import Configured
from serving.common.errors import FailedPrecondition, ServingError
from serving.common.tls import authorization

P = ParamSpec("P")
T = TypeVar("T")


def _awaited(
    plan: Callable[Concatenate[Plans, P], Steps[T]],
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    @functools.wraps(plan)
    async def method(client: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await client._run(plan(client._plans, *args, **kwargs))

    return method


class AsyncClient(Configured):
    """`Client` with methods to be awaited; it belongs to the event loop of its first call.

    A call whose task is cancelled is cancelled at the server too. A `token` may be an async
    function.

    Example:
        async with AsyncClient(["ctr-1:8500", "ctr-2:8500"], model="ctr") as client:
            scores = await client.rank({"user_id": "u7"}, [{"item_id": "i1"}])
    """

    predict = _awaited(Plans.predict)
    predict_rows = _awaited(Plans.predict_rows)
    rank = _awaited(Plans.rank)
    explain = _awaited(Plans.explain)
    classify = _awaited(Plans.classify)
    regress = _awaited(Plans.regress)
    metadata = _awaited(Plans.metadata)
    status = _awaited(Plans.status)
    health = _awaited(Plans.health)
    reload = _awaited(Plans.reload)

    def _start(self) -> None:
        self._lines: weakref.WeakSet[Line] = weakref.WeakSet()  # those from before a change too
        self._line: Line | None = None  # that of new calls; opened in the loop of the first
        self._loop: asyncio.AbstractEventLoop | None = None
        self._looking_up: asyncio.Task[None] | None = None
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
        """Ends the connections, and the calls that still run."""
        self._is_closed = True
        if self._looking_up is not None:
            self._looking_up.cancel()
        for line in list(self._lines):
            await line.channel.close()

    async def _run(self, steps: Steps[T]) -> T:
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

    async def _send(self, call: Call) -> Any:
        if self._is_closed:
            raise self._connection.closed(call)
        line = self._line or self._open()
        if self._loop is not asyncio.get_running_loop():
            raise FailedPrecondition("The client belongs to another event loop. Make one for each.")
        is_looking_up = self._looking_up is not None and not self._looking_up.done()
        if self._connection.target.is_due() and not is_looking_up:
            self._looking_up = asyncio.create_task(self._look_up())
        headers, token = call.invocation.headers, self._connection.token
        if token is not None:
            value = token() if callable(token) else token
            headers += (authorization(await value if inspect.isawaitable(value) else value),)
        try:
            return await line.methods[call.method](
                call.request, timeout=call.invocation.remaining(), metadata=headers
            )
        except grpc.RpcError as error:
            raise self._connection.failure(call, error, is_closed=self._is_closed) from error
        except (asyncio.CancelledError, grpc.aio.UsageError) as error:
            # Closing cancels calls, and not their tasks, which would end without a word.
            task = asyncio.current_task()
            if not self._is_closed or (task is not None and task.cancelling()):
                raise
            raise self._connection.closed(call) from error

    async def _look_up(self) -> None:
        if await asyncio.to_thread(self._connection.target.refresh):
            self._open()

    def _open(self) -> Line:
        self._loop = asyncio.get_running_loop()
        self._line = line = self._connection.open(grpc.aio)
        self._lines.add(line)
        return line
