"""The threads that answer, and how many calls are theirs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent import futures
from typing import Any

from serving.errors import ResourceExhausted

# What takes no time is answered by these, however busy the others are: probes and refusals. There
# are as many as are needed: each call has one from its beginning, also while its message is not
# there yet, and two that stall must not keep all others from being answered.
_MOST_PROMPT = 256
PROMPT = futures.ThreadPoolExecutor(_MOST_PROMPT, thread_name_prefix="prompt")


def answered_promptly(method: Callable[..., Any]) -> Callable[..., Any]:
    """Has gRPC answer a method's calls apart from those that compute."""
    vars(method)["experimental_thread_pool"] = PROMPT
    return method


class Workers(futures.ThreadPoolExecutor):
    """Threads that answer.

    Args:
        threads: How many.
        name: What they are called.
        most_calls: Calls that may be theirs at a time, waiting or running; 0: any number.
    """

    def __init__(self, threads: int, name: str, most_calls: int = 0) -> None:
        super().__init__(threads, thread_name_prefix=name)
        self._most_calls = most_calls
        self._lock = threading.Lock()  # guards the number below it
        self._calls = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> futures.Future[Any]:
        future = super().submit(fn, *args, **kwargs)
        self._count(1)
        future.add_done_callback(lambda _: self._count(-1))
        return future

    def require_room(self) -> None:
        """Raises where another call would be one too many.

        Raises:
            ResourceExhausted: It would.
        """
        if self._most_calls and self._calls >= self._most_calls:
            raise ResourceExhausted(
                f"{self._most_calls} requests are being answered already. Send fewer at a time."
            )

    def _count(self, calls: int) -> None:
        with self._lock:
            self._calls += calls
