"""What an engine does, and the order in which every engine merges."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import reduce
from typing import Any, Protocol, TypeVar

Batch = TypeVar("Batch")
Result = TypeVar("Result")
State = TypeVar("State")

# Gives the function that is applied to batches. Each worker enters it once: there a model is
# loaded, and files stay open until it is left.
Work = Callable[[], AbstractContextManager[Callable[[Any], Any]]]


class Engine(Protocol):
    """Applies a function to batches. Engines differ in where, never in the results.

    Work, batches and results must be picklable: an engine may move them between processes.
    """

    def map_ordered(self, work: Work, batches: Sequence[Any]) -> Generator[Any]:
        """The result of each batch, in their order; few are held at a time."""

    def map_reduce(
        self,
        work: Work,
        batches: Sequence[Any],
        merge: Callable[[Any, Any], Any],
        done: Callable[[Any], None],
    ) -> Any:
        """All results as one, merged as by `tree`; `done` is told each batch that is mapped."""


def tree(
    states: Iterable[State], merge: Callable[[State, State], State], incomplete: int | None = None
) -> State:
    """Merges neighbours of equal size, like the digits of a binary counter.

    A large state is not copied for every batch, and what is merged with what depends on the
    number of batches alone. So an engine may let each state stand for 2^k batches, merged by this
    function.

    Args:
        states: At least one.
        merge: Makes one of two.
        incomplete: Number of the last state, where it stands for fewer batches than the others.
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
