"""Calls that run while the names change, or while their client is closed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import grpc
import pytest

from serving.client import AsyncClient
from serving.common.addresses import Addresses, Target
from serving.common.errors import FailedPrecondition
from tests.serving.client.conftest import INPUTS, Ask, Connect, StartStub
from tests.serving.client.stub_server import Stub

HELD: dict[str, Any] = {"metadata": {"x-held": "yes"}, "timeout": None}
CLOSED = "The client of .* is closed"


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


@pytest.fixture
def lead_to(monkeypatch: pytest.MonkeyPatch) -> Callable[[Stub], None]:
    """Has all names lead to a stub; each call looks them up."""
    monkeypatch.setattr("serving.common.addresses.REFRESH_SECONDS", 0.0)

    def lead(stub: Stub) -> None:
        monkeypatch.setattr(Addresses, "look_up", lambda self: {"a:1": [stub.address]})

    return lead


def test_calls_run_on_where_the_names_change(
    connect: Connect, start_stub: StartStub, lead_to: Callable[[Stub], None]
) -> None:
    before, after = start_stub(), start_stub()
    lead_to(before)

    async def scenario(ask: Ask) -> None:
        call = asyncio.create_task(ask("predict", INPUTS, **HELD))
        await until(lambda: before.seen)
        lead_to(after)
        while not after.seen:
            await ask("predict", INPUTS)
        before.may_answer.set()
        assert (await call)["click"].tolist() == [2, 3, 5]

    connect(["a:1", "b:1"], timeout=None).play(scenario)


def test_a_closed_client_says_so_to_calls_that_run(
    connect: Connect, start_stub: StartStub, lead_to: Callable[[Stub], None]
) -> None:
    """Also to those on a channel from before a change."""
    before, after = start_stub(), start_stub()
    lead_to(before)

    async def scenario(ask: Ask) -> None:
        old = asyncio.create_task(ask("predict", INPUTS, request_id="r-1", **HELD))
        await until(lambda: before.seen)
        lead_to(after)
        while not after.seen:
            await ask("predict", INPUTS)
        new = asyncio.create_task(ask("predict", INPUTS, request_id="r-2", **HELD))
        await until(lambda: after.seen[-1].metadata["x-request-id"] == "r-2")
        await ask("close")
        for call, request_id in ((old, "r-1"), (new, "r-2")):
            with pytest.raises(FailedPrecondition, match=CLOSED) as raised:
                await call
            assert raised.value.request_id == request_id

    connect(["a:1", "b:1"]).play(scenario)


def test_a_client_that_is_closed_before_it_sends(connect: Connect, start_stub: StartStub) -> None:
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


def test_a_task_that_is_cancelled_is_cancelled_also_where_its_client_is_closed(
    start_stub: StartStub,
) -> None:
    async def use(stub: Stub) -> None:
        client = AsyncClient(stub.address, model="tiny")
        call = asyncio.create_task(client.predict(INPUTS, **HELD))
        await until(lambda: stub.seen)
        call.cancel()
        await client.close()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(use(start_stub()))


def test_a_closed_client_opens_nothing_for_names_that_it_still_looks_up(
    connect: Connect, start_stub: StartStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub, may_end = start_stub(), threading.Event()
    begun: list[Target] = []
    ended: list[Target] = []

    def refresh(target: Target) -> bool:
        begun.append(target)
        may_end.wait(20)
        ended.append(target)
        return True

    monkeypatch.setattr(Target, "refresh", refresh)
    monkeypatch.setattr("serving.common.addresses.REFRESH_SECONDS", 0.0)
    opened = {library: Mock(wraps=library.insecure_channel) for library in (grpc, grpc.aio)}
    for library, insecure_channel in opened.items():
        monkeypatch.setattr(library, "insecure_channel", insecure_channel)

    async def scenario(ask: Ask) -> None:
        for _ in range(3):
            await ask("predict", INPUTS)
        await ask("close")
        may_end.set()
        await until(lambda: begun and len(begun) == len(ended))
        await asyncio.sleep(0.05)  # time to open what must not be
        assert sum(open_one.call_count for open_one in opened.values()) == 1

    connect([stub.address, "localhost:1"]).play(scenario)
