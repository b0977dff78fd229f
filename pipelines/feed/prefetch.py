"""An iterator that a thread fills ahead of its consumer."""

from __future__ import annotations

import queue
import threading
import time
import weakref
from collections.abc import Generator
from typing import Any, Generic, Self, TypeVar

Item = TypeVar("Item")
_PATIENCE = (
    30.0  # seconds to wait for the thread; a hanging read must not block the end of a program
)


class Prefetcher(Generic[Item]):
    """Runs a generator in a thread, at most `ahead` items ahead of the consumer.

    An exception of the generator is raised in place of the next item. `close`, the end of a `with`
    block, garbage collection and the end of the program stop the thread and close the generator.

    Args:
        items: The generator.
        ahead: Maximum number of items made in advance.
        name: Name of the thread.
    """

    def __init__(self, items: Generator[Item], ahead: int, name: str) -> None:
        self.waited = 0.0  # seconds that the consumer waited for items
        self._made: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self._room = threading.Semaphore(ahead)
        stopping = threading.Event()
        # The thread has no reference to this object, so that it can be garbage collected.
        thread = threading.Thread(
            target=_run, args=(items, self._made, self._room, stopping), name=name, daemon=True
        )
        self._close = weakref.finalize(self, _stop, thread, stopping, self._room)
        thread.start()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Item:
        if not self._close.alive:
            raise StopIteration
        begin = time.perf_counter()
        kind, value = self._made.get()
        self.waited += time.perf_counter() - begin
        if kind == "item":
            self._room.release()
            return value
        self.close()
        if kind == "error":
            raise value
        raise StopIteration

    def close(self) -> None:
        """Stops the thread and waits for it; there are no more items."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _run(
    items: Generator[Any],
    made: queue.SimpleQueue[tuple[str, Any]],
    room: threading.Semaphore,
    stopping: threading.Event,
) -> None:
    try:
        try:
            while room.acquire() and not stopping.is_set():
                made.put(("item", next(items)))
        finally:
            items.close()
    except StopIteration:
        made.put(("end", None))
    except BaseException as error:
        made.put(("error", error))


def _stop(thread: threading.Thread, stopping: threading.Event, room: threading.Semaphore) -> None:
    stopping.set()
    room.release()
    if thread is not threading.current_thread():
        thread.join(_PATIENCE)
