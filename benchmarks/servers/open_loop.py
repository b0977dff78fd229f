"""Requests that come whether or not the server keeps up, from a process of its own.

    python -m benchmarks.servers.open_loop ADDRESS FOLDER WAY

For each line of the standard input, JSON of the arguments of `open_loop` or, with `callers`, of
`closed_loop`, it sends the requests `WAY-*` of FOLDER and prints what came of them as JSON.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from grpc import aio

from benchmarks.servers.channel import OWN_CONNECTION, PREDICT, UNLIMITED
from benchmarks.servers.processes import processor_seconds

_CONNECTIONS = 8
_WARM = 1.0  # seconds of load before the measured ones, in which the queue settles
_TICK = 0.001  # the loop sleeps no shorter: what came due meanwhile is sent together
_IN_TIME = "OK"

Call = Callable[[float], Coroutine[Any, Any, str]]


class Sender:
    """Sends the requests in turns over several connections."""

    def __init__(self, address: str, requests: list[bytes]) -> None:
        channels = [
            aio.insecure_channel(address, options=[*UNLIMITED, OWN_CONNECTION])
            for _ in range(_CONNECTIONS)
        ]
        methods = itertools.cycle([channel.unary_unary(PREDICT) for channel in channels])
        self._next: Iterator[tuple[Any, bytes]] = zip(methods, itertools.cycle(requests))

    async def call(self, deadline: float) -> str:
        """Sends the next request; returns the code of its answer, OK within the deadline only."""
        method, request = next(self._next)
        try:
            await method(request, timeout=deadline)
        except aio.AioRpcError as error:
            return error.code().name
        return _IN_TIME


class Window:
    """Counts the answers of the measured seconds, and the processor time in them.

    Args:
        server: Process id of the server.
        seconds: Length of the window.
    """

    def __init__(self, server: int, seconds: float) -> None:
        self._server, self._seconds = server, seconds
        self._begin = time.perf_counter() + _WARM
        self._codes: Counter[str] = Counter()
        self._processors = [0.0, 0.0]
        self._length = seconds

    def count(self, code: str) -> None:
        """Counts an answer if it comes within the window."""
        if 0 <= time.perf_counter() - self._begin < self._seconds:
            self._codes[code] += 1

    async def watch(self) -> dict[str, Any]:
        """Returns at the end of the window what was counted in it."""
        await asyncio.sleep(self._begin - time.perf_counter())
        before, begin = self._read(), time.perf_counter()
        await asyncio.sleep(self._seconds - (begin - self._begin))
        seconds = time.perf_counter() - begin
        server, client = (a - b for a, b in zip(self._read(), before, strict=True))
        return {"codes": self._codes, "seconds": seconds, "server": server, "own": client}

    def _read(self) -> tuple[float, float]:
        return processor_seconds(self._server), time.process_time()


async def open_loop(
    sender: Sender, *, server: int, rate: float, seconds: float, deadline: float, seed: int
) -> dict[str, Any]:
    """Sends requests at random times.

    Args:
        sender: Sends them.
        server: Process id of the server.
        rate: Requests a second, in the mean; the times between two are exponential.
        seconds: Time that is measured.
        deadline: Seconds that each client waits.
        seed: Of the times.
    """
    window = Window(server, seconds)
    watch = asyncio.ensure_future(window.watch())
    rng, running = np.random.default_rng(seed), set[asyncio.Task[None]]()

    async def one() -> None:
        window.count(await sender.call(deadline))

    due = time.perf_counter()
    while not watch.done():
        while due <= time.perf_counter():
            task = asyncio.ensure_future(one())
            running.add(task)
            task.add_done_callback(running.discard)
            due += rng.exponential(1 / rate)
        await asyncio.sleep(max(_TICK, due - time.perf_counter()))
    await asyncio.gather(*running)
    return await watch


async def closed_loop(
    sender: Sender, *, server: int, callers: int, seconds: float
) -> dict[str, Any]:
    """Sends the next request of each caller once its last one is answered."""
    window = Window(server, seconds)
    watch = asyncio.ensure_future(window.watch())

    async def caller() -> None:
        while not watch.done():
            window.count(await sender.call(60.0))

    await asyncio.gather(*(caller() for _ in range(callers)))
    return await watch


async def main() -> None:
    """Answers line by line."""
    address, folder, way = sys.argv[1:]
    requests = [path.read_bytes() for path in sorted(Path(folder).glob(f"{way}-*"))]
    sender = Sender(address, requests)
    gc.disable()  # a collection would delay requests
    for line in sys.stdin:
        options = json.loads(line)
        loop = closed_loop if "callers" in options else open_loop
        print(json.dumps(await loop(sender, **options)), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
