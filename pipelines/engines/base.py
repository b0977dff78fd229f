"""The `Engine` protocol, its order of merging results, and the engine of this process."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import reduce
from typing import Any, Protocol, TypeVar

Batch = TypeVar("Batch")
Result = TypeVar("Result")
State = TypeVar("State")

# Returns a context manager whose value is applied to batches. Each worker enters it once, loads
# the model there, and keeps files open until it leaves.
Work = Callable[[], AbstractContextManager[Callable[[Any], Any]]]


class Engine(Protocol):
    """Applies a function to batches. The result is the same with every engine.

    Work, batches and results must be picklable: an engine may move them between processes.
    """

    def map_ordered(self, work: Work, batches: Sequence[Any]) -> Generator[Any]:
        """The result of each batch, in order; few are held at a time."""

    def map_reduce(
        self,
        work: Work,
        batches: Sequence[Any],
        merge: Callable[[Any, Any], Any],
        done: Callable[[Any], None],
    ) -> Any:
        """All results merged as by `tree`; calls `done` with each mapped batch."""


def tree(
    states: Iterable[State], merge: Callable[[State, State], State], incomplete: int | None = None
) -> State:
    """Merges neighbours of equal size, like the digits of a binary counter.

    A large state is not copied for every batch, and the order of merging depends only on the
    number of batches. So an engine may merge blocks of 2^k batches with this function first.

    Args:
        states: At least one.
        merge: Makes one of two.
        incomplete: Number of the last state, if it holds fewer batches than the others.
    """
    parts: list[tuple[int, State]] = []
    for number, state in enumerate(states):
        level = -1 if number == incomplete else 0
        while parts and parts[-1][0] == level:
            state, level = merge(parts.pop()[1], state), level + 1
        parts.append((level, state))
    if not parts:
        raise ValueError("`batches` must hold at least one batch of rows. Received: none")
    return reduce(merge, [state for _, state in reversed(parts)])


class LocalEngine:
    """Applies the function to one batch after another."""

    def map_ordered(self, work: Work, batches: Sequence[Any]) -> Generator[Any]:
        """The result of each batch, in order."""
        with work() as function:
            yield from map(function, batches)

    def map_reduce(
        self,
        work: Work,
        batches: Sequence[Any],
        merge: Callable[[Any, Any], Any],
        done: Callable[[Any], None],
    ) -> Any:
        """All results merged; calls `done` with each mapped batch."""

        def states(function: Callable[[Any], Any]) -> Iterator[Any]:
            for batch in batches:
                yield function(batch)
                done(batch)

        with work() as function:
            return tree(states(function), merge)


LOCAL = LocalEngine()
