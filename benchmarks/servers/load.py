"""Callers in a closed loop: each sends its next request when it has the answer to the last."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.servers.channel import Send


@dataclass
class Load:
    """What callers saw of a server, in one turn or in several.

    Attributes:
        rates: Requests a second, of each turn.
        latencies: Seconds of every request.
        processor: Seconds of the server's processor.
        client: Seconds of the callers' own.
    """

    rates: list[float] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)
    processor: float = 0.0
    client: float = 0.0

    def add(self, other: Load) -> None:
        """Takes the numbers of another turn."""
        self.rates += other.rates
        self.latencies += other.latencies
        self.processor += other.processor
        self.client += other.client


def call(senders: Sequence[Send], requests: Sequence[bytes], callers: int, seconds: float) -> Load:
    """Calls for so many seconds, and until the last answer is there.

    Args:
        senders: Connections, which the callers share.
        requests: What they send, in turns.
        callers: How many there are.
        seconds: When they stop to begin new requests.

    Raises:
        grpc.RpcError: A request failed.
    """
    spans: list[tuple[float, float]] = []
    errors: list[BaseException] = []
    begin = time.perf_counter()

    def work(number: int) -> None:
        send = senders[number % len(senders)]
        start = begin
        try:
            for request in itertools.islice(itertools.cycle(requests), number, None):
                start = time.perf_counter()
                if start - begin >= seconds or errors:
                    return
                send(request)
                spans.append((start, time.perf_counter()))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(callers)]
    client = time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    ends = sorted(end - begin for _, end in spans)
    if not ends:
        raise RuntimeError(f"No request began in {seconds:g} s: give the callers more time.")
    return Load(
        [rate(ends, seconds)], [b - a for a, b in spans], client=time.process_time() - client
    )


def rate(ends: Sequence[float], seconds: float) -> float:
    """Answers a second, up to the last one within the time; of all where none is.

    Args:
        ends: When the answers came, in order.
        seconds: How long requests were begun.
    """
    within = [end for end in ends if end <= seconds] or ends
    return len(within) / within[-1]
