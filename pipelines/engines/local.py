"""The engine that runs in this process."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

from pipelines.engines.base import Work, tree


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
