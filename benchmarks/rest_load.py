"""What callers of the scoring service notice while others send large REST bodies.

    python -m benchmarks.rest_load
    python -m benchmarks.rest_load --seconds 20 --cases lists

One server with its default limits serves a logistic regression, which takes little time to
compute (`benchmarks/servers/subjects.py`). In each case eight callers send the same body over and
over, each when it has the answer to the last, while health and single rows are asked for, each 20
ms after the last answer. The server, the eight callers and the small requests have a process each,
on one machine. A case begins when the server has nothing to do.

- `quiet`: no large bodies.
- `gzip`: 90 MB as gzip of 87 kB, which is refused.
- The others are as large as a body may be (`benchmarks/servers/bodies.py`): numbers in a column,
  rows as objects, lists deep in each other (as many as a body may have, and white space), objects
  for `:classify`, numbers for `:rank`. More than 100,000 rows or candidates, and lists where
  numbers belong, are refused once the body has been read.

`answer` is the status of such a body, `alone s` the time of one while there are no others.
Nothing is asserted.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from rich.console import Console
from rich.table import Table

from benchmarks.servers.bodies import CASES, MODEL, SMALL, Body
from benchmarks.servers.channel import sender
from benchmarks.servers.contenders import OURS, Contender
from benchmarks.servers.processes import Process, free_address
from benchmarks.shared.command_line import one_of, several

CALLERS = 8
PAUSE = 0.02  # seconds between small requests
TIMEOUT = 60.0
OK = 200
Times = Mapping[str, Sequence[float]]  # milliseconds, of each kind of small requests


class Rest:
    """A connection to the REST API."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)

    def post(self, body: Body) -> int:
        """The status of the answer."""
        path, headers = f"/v1/models/{MODEL}:{body.method}", {"Content-Encoding": body.encoding}
        self._connection.request("POST", path, body.content, headers)
        return self._status()

    def score(self) -> None:
        """Asks for the score of a row."""
        self._require_ok(self.post(SMALL))

    def healthz(self) -> None:
        """Asks whether the server lives."""
        self._connection.request("GET", "/healthz")
        self._require_ok(self._status())

    def _status(self) -> int:
        with self._connection.getresponse() as response:
            response.read()
            return response.status

    @staticmethod
    def _require_ok(status: int) -> None:
        if status != OK:
            raise RuntimeError(f"A small request was answered with the status {status}.")


def send_for_ever(port: int, body: Body) -> None:
    """Sends a body from all callers."""

    def send() -> None:
        connection = Rest(port)
        while True:
            connection.post(body)

    for _ in range(CALLERS):
        threading.Thread(target=send).start()


@contextlib.contextmanager
def sending(port: int, body: Body) -> Iterator[None]:
    """Has a process send a body; begins a second later, when it does."""
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=send_for_ever, args=(port, body), daemon=True)
    process.start()
    time.sleep(1.0)
    try:
        yield
    finally:
        process.kill()
        process.join()


def times_of(ask: Callable[[], object], seconds: float) -> list[float]:
    """Milliseconds of each request of that time."""
    found, end = [], time.perf_counter() + seconds
    while (begin := time.perf_counter()) < end:
        ask()
        found.append(1e3 * (time.perf_counter() - begin))
        time.sleep(PAUSE)
    return found


class Server:
    """A server that runs, and the small requests to it.

    Args:
        folder: With the model, and requests for it.
        stack: Ends it.
    """

    def __init__(self, folder: Path, stack: contextlib.ExitStack) -> None:
        self._address, rest_address = free_address(), free_address()
        ports = [address.rpartition(":")[2] for address in (self._address, rest_address)]
        command = ["serve", "--model-base-path", str(folder / "models" / MODEL)]
        command += ["--port", ports[0], "--rest-api-port", ports[1]]
        self.port = int(ports[1])
        self._process = Process("pipelines", *command, log=folder / "server.log")
        stack.callback(self._process.stop)
        contender = Contender(OURS, "tiled", self._process, [sender(self._address)])
        self._row = contender.requests(folder / "requests" / MODEL / "1")[0]
        contender.wait(self._row)
        self.times(1.0)  # the first requests are slow

    def times(self, seconds: float) -> Times:
        """What so many seconds of small requests take, over new connections: idle ones close."""
        with grpc.insecure_channel(self._address) as channel:
            health, question = health_pb2_grpc.HealthStub(channel), health_pb2.HealthCheckRequest()
            asks: Mapping[str, Callable[[], object]] = {
                "health, gRPC": lambda: health.Check(question, timeout=TIMEOUT),
                "/healthz": Rest(self.port).healthz,
                "row, gRPC": partial(sender(self._address), self._row),
                "row, REST": Rest(self.port).score,
            }
            with ThreadPoolExecutor(len(asks)) as pool:
                every = pool.map(partial(times_of, seconds=seconds), asks.values())
                return dict(zip(asks, every, strict=True))

    def wait_until_idle(self) -> None:
        """Returns when it takes less than a tenth of a processor."""
        used = float("inf")
        while used > 0.05:
            before = self._process.processor_seconds()
            time.sleep(0.5)
            used = self._process.processor_seconds() - before


def measure(server: Server, body: Body, seconds: float) -> tuple[list[str], Times]:
    """One kind of large body, and the times of small requests beside it."""
    begin = time.perf_counter()
    status = Rest(server.port).post(body)
    alone = time.perf_counter() - begin
    server.wait_until_idle()
    with sending(server.port, body):
        times = server.times(seconds)
    server.wait_until_idle()
    return [f"{len(body.content) / 1e3:,.0f}", str(status), f"{alone:.1f}"], times


def table_of(rows: Mapping[str, tuple[Sequence[str], Times]]) -> Table:
    """Medians and maxima of the cases."""
    table = Table(title="Milliseconds", box=None, title_justify="left")
    for name in ("", "kB", "answer", "alone s"):
        table.add_column(name, justify="right" if name else "left")
    for name in next(iter(rows.values()))[1]:
        table.add_column(f"{name}\np50", justify="right")
        table.add_column("\nmax", justify="right")
    for name, (about, times) in rows.items():
        found = [f"{number:.1f}" for one in times.values() for number in (median(one), max(one))]
        table.add_row(name, *about, *found)
    return table


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.rest_load",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seconds", type=float, default=5.0, help="of each case (5)")
    several(parser, "--cases", ",".join(CASES), one_of(CASES), "beside `quiet`")
    options = parser.parse_args()
    with TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        what = json.dumps({"models": [MODEL], "candidates": [1], "seed": 0})
        log = folder / "subjects.log"
        Process("benchmarks.servers.subjects", name, what, log=log).finish()
        server = Server(folder, stack)
        rows: dict[str, tuple[Sequence[str], Times]] = {
            "quiet": (["", "", ""], server.times(options.seconds))
        }
        for case in options.cases:
            rows[case] = measure(server, CASES[case](), options.seconds)
    Console(width=120).print(table_of(rows))


if __name__ == "__main__":
    main()
