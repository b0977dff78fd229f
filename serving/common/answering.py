"""What answers is a coroutine: it waits for its batch, and for nothing else.

So it need not have a thread while it waits, and the thread that computes a batch can write the
answers of all its requests, and read the next ones (`batching.scheduler`).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from serving.common.call import Call

Answer = TypeVar("Answer")
# Runs a coroutine for a call: `finished`, or a scheduler's `answer`.
Run = Callable[[Coroutine[Any, Any, Any], Call], Any]


def finished(answer: Coroutine[Any, Any, Answer], call: Call | None = None) -> Answer:
    """What a coroutine gives that waits for no batch.

    Args:
        answer: The coroutine.
        call: Who waits for it.

    Raises:
        RuntimeError: It does wait for one.
    """
    try:
        answer.send(None)
    except StopIteration as end:
        found: Answer = end.value
        return found
    answer.close()
    raise RuntimeError("It waits for a batch: the scheduler must run it (`Scheduler.answer`).")
