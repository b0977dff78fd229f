"""Calls of a client that is closed, and tasks that are cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from serving.client import AsyncClient
from serving.common.errors import FailedPrecondition
from tests.serving.client.conftest import INPUTS, Ask, Connect, StartStub

HELD: dict[str, Any] = {"metadata": {"x-held": "yes"}, "timeout": None}
CLOSED = "The client of .* is closed"


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


def test_close_ends_running_calls(connect: Connect, start_stub: StartStub) -> None:
    stub = start_stub()

    async def scenario(ask: Ask) -> None:
        call = asyncio.create_task(ask("predict", INPUTS, request_id="r-1", **HELD))
        await until(lambda: stub.seen)
        await ask("close")
        with pytest.raises(FailedPrecondition, match=CLOSED) as raised:
            await call
        assert raised.value.request_id == "r-1"

    connect(stub.address).play(scenario)


def test_calls_after_close_fail(connect: Connect, start_stub: StartStub) -> None:
    handle = connect(start_stub().address)
    handle.predict()
    handle.ask("close")
    with pytest.raises(FailedPrecondition, match=CLOSED):
        handle.predict()


def test_close_before_the_request_is_sent(connect: Connect, start_stub: StartStub) -> None:
    stub = start_stub()

    def close() -> Any:
        closing = handle.client.close()
        return "token" if closing is None else closed(closing)

    async def closed(closing: Any) -> str:
        await closing
        return "token"

    handle = connect(stub.address, token=close)
    with pytest.raises(FailedPrecondition, match=CLOSED):
        handle.predict()
    assert stub.seen == []


def test_cancelled_task_stays_cancelled_after_close(start_stub: StartStub) -> None:
    async def use() -> None:
        stub = start_stub()
        client = AsyncClient(stub.address, model="tiny")
        call = asyncio.create_task(client.predict(INPUTS, **HELD))
        await until(lambda: stub.seen)
        call.cancel()
        await client.close()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(use())


def test_async_client_belongs_to_one_loop(start_stub: StartStub) -> None:
    client = AsyncClient(start_stub().address, model="tiny")
    with asyncio.Runner() as one, asyncio.Runner() as other:
        one.run(client.predict({}))
        with pytest.raises(FailedPrecondition, match="belongs to another event loop"):
            other.run(client.predict({}))
        one.run(client.close())
