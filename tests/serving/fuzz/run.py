"""Runs the fuzzer against a server, and keeps what it saw."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from tests.serving.fuzz.cases import Outcome
from tests.serving.fuzz.generate import make_case
from tests.serving.fuzz.good import GoodCaller
from tests.serving.fuzz.process import ServerProcess
from tests.serving.fuzz.senders import Sender
from tests.serving.fuzz.verdict import violation

_THREADS = 6
_SAMPLES = 10  # of the memory: the first is taken once everything has been used
_MOST_GROWTH = 256.0  # MB between the first sample and the last


@dataclass
class Seen:
    """What a run saw.

    Attributes:
        counts: Requests by kind and code.
        violations: What was wrong, with what brings it back.
        megabytes: The server's memory, evenly over the run.
        good: Seconds that each good request took.
    """

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    megabytes: list[float] = field(default_factory=list)
    good: list[float] = field(default_factory=list)


class Run:
    """Sends requests from several threads, and good ones from one more.

    Args:
        server: Where to.
        base_path: Folder of the models.
        seed: Chooses the requests.
        progress: Told that one more is done.
    """

    def __init__(
        self, server: ServerProcess, base_path: str, seed: int, progress: Callable[[], object]
    ) -> None:
        self._server = server
        self._base_path = base_path
        self._seed = seed
        self._progress = progress
        self._lock = threading.Lock()  # guards the rest
        self._numbers: Iterable[int] = ()
        self._step = 1
        self._seen = Seen()

    def __call__(self, numbers: range, good_limit: float) -> Seen:
        """Sends the requests of these numbers; good ones must be answered within a limit."""
        self._numbers, self._step = iter(numbers), max(1, len(numbers) // _SAMPLES)
        good = GoodCaller(self._server, good_limit)
        good.start()
        threads = [threading.Thread(target=self._send) for _ in range(_THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        good.stop()
        self._seen.good = good.seconds
        self._seen.violations += [f"a good request: {failure}" for failure in good.failures]
        self._check_server()
        return self._seen

    def _send(self) -> None:
        sender = Sender(self._server, self._note)
        while self._server.is_alive:
            with self._lock:
                number = next(iter(self._numbers), None)
            if number is None:
                break
            sender.send(make_case(self._seed, number, self._base_path))
        sender.close()

    def _note(self, outcome: Outcome) -> None:
        wrong = violation(outcome)
        with self._lock:
            self._seen.counts[outcome.case.kind, outcome.code] += 1
            if wrong:
                self._seen.violations.append(f"{outcome.case}: {wrong}")
            if self._server.is_alive and self._seen.counts.total() % self._step == 0:
                self._seen.megabytes.append(self._server.megabytes())
        self._progress()

    def _check_server(self) -> None:
        seen = self._seen
        if not self._server.is_alive:
            code = self._server.running.returncode
            seen.violations.append(f"the server died: {code}: {self._server.last_words()}")
        elif wrong := self._server.stop():
            seen.violations.append(f"the server was stopped: {wrong}")
        if seen.megabytes and seen.megabytes[-1] - seen.megabytes[0] > _MOST_GROWTH:
            seen.violations.append(f"the server's memory grew: {np.round(seen.megabytes)} MB")
