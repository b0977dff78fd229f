"""The engine of a Ray cluster: its tasks are batches or blocks of them, and merges."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import ray

from pipelines.engines.base import Work, tree
from pipelines.engines.ray_cluster import ENVIRONMENT, connected

_AHEAD = 2  # tasks for each CPU: one runs and one waits, so that few results are held
_TASKS = 8  # tasks for each CPU, at least, of those that merge what they make
_LARGEST_BLOCK = 64  # batches
_LEAVING = ExitStack()  # leaves the work that this worker process has entered
_FUNCTIONS: dict[str, Callable[[Any], Any]] = {}  # the function of that work, by its reference


@dataclass(frozen=True)
class Ray:
    """Runs work on a cluster; a task whose worker was killed runs again elsewhere.

    Files must be where every worker finds them: on this machine, or on shared storage.

    Args:
        address: As of `connected`.
    """

    address: str = "local"

    def map_ordered(self, work: Work, batches: Sequence[Any]) -> Generator[Any]:
        """The result of each batch, in their order; few are held at a time."""
        with connected(self.address):
            shared = [ray.put(work)]
            for (result,) in _ahead([_apply.remote(shared, batch)] for batch in batches):
                yield ray.get(result)

    def map_reduce(
        self,
        work: Work,
        batches: Sequence[Any],
        merge: Callable[[Any, Any], Any],
        done: Callable[[Any], None],
    ) -> Any:
        """All results as one; they meet in the workers, and only the last one comes here."""
        with connected(self.address):
            shared, merging = [ray.put(work)], ray.put(merge)
            size = _block_size(len(batches))
            blocks = [batches[i : i + size] for i in range(0, len(batches), size)]
            reduced = _reduce.options(num_returns=2)
            tasks = _ahead((*reduced.remote(shared, merging, b), b) for b in blocks)

            def states() -> Iterator[ray.ObjectRef]:
                for state, finished, block in tasks:
                    ray.get(finished)
                    for batch in block:
                        done(batch)
                    yield state

            incomplete = len(blocks) - 1 if len(batches) % size else None
            return ray.get(tree(states(), lambda a, b: _merge.remote(merging, a, b), incomplete))


@ray.remote(runtime_env=ENVIRONMENT)
def _apply(shared: list[ray.ObjectRef], batch: Any) -> Any:
    return _function(shared)(batch)


@ray.remote(runtime_env=ENVIRONMENT)
def _reduce(
    shared: list[ray.ObjectRef], merge: Callable[[Any, Any], Any], block: Sequence[Any]
) -> tuple[Any, None]:
    """The state of a block, and what can be had of it without fetching the state."""
    return tree(map(_function(shared), block), merge), None


@ray.remote(runtime_env=ENVIRONMENT)
def _merge(merge: Callable[[Any, Any], Any], first: Any, second: Any) -> Any:
    return merge(first, second)


def _function(shared: list[ray.ObjectRef]) -> Callable[[Any], Any]:
    """The function of the work, which a worker process enters once and keeps until the next."""
    key = shared[0].hex()
    if key not in _FUNCTIONS:
        _FUNCTIONS.clear()
        _LEAVING.close()
        _FUNCTIONS[key] = _LEAVING.enter_context(ray.get(shared[0])())
    return _FUNCTIONS[key]


def _block_size(batches: int) -> int:
    """Batches for each task, a power of two: many to be worth a task, few to employ each CPU."""
    share = batches // (_TASKS * _cpus())
    return 1 << (min(max(share, 1), _LARGEST_BLOCK).bit_length() - 1)


def _cpus() -> int:
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


def _ahead(tasks: Iterable[Sequence[Any]]) -> Iterator[Sequence[Any]]:
    """The tasks in their order, each given when some after it have been started."""
    most = _AHEAD * _cpus()
    started: deque[Sequence[Any]] = deque()
    try:
        for task in tasks:
            started.append(task)
            if len(started) > most:
                yield started.popleft()
        while started:
            yield started.popleft()
    finally:
        for task in started:
            ray.cancel(task[0])
