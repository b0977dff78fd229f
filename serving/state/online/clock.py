"""The clock of a state, in the unit of its times."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from serving.state.columns.times import (
    exact_time,
    read_exact_time,
    ticks_per_second,
    time_words,
    to_tick,
)
from serving.state.definitions.definition import TICKS, StateDefinition
from serving.state.errors import DataError

_AHEAD = 300  # seconds that another clock may be ahead of this one


class Clock:
    """The time of now as the log would hold it.

    Args:
        definition: The features.
        seconds: Seconds since 1970.
    """

    def __init__(
        self, definition: StateDefinition, seconds: Callable[[], float] = time.time
    ) -> None:
        self._kind = definition.time_type
        self._unit = definition.time_unit
        self._seconds = seconds

    def now(self, later: float = 0.0) -> int | float | None:
        """The time of now in ticks; None if times are numbers of an unknown unit.

        Args:
            later: Seconds to add.
        """
        seconds = self._seconds() + later
        if ticks_per_second(self._kind) is not None:
            return to_tick(datetime.fromtimestamp(seconds, UTC), self._kind)
        if self._unit is None:
            return None
        ticks = seconds * TICKS[self._unit]
        return int(ticks) if pa.types.is_integer(self._kind) else ticks

    @property
    def limit(self) -> int | float | None:
        """The latest time of a row that is not of the future; None as of `now`."""
        return self.now(_AHEAD)

    @property
    def is_whole_number(self) -> bool:
        """Whether times are whole numbers, and no dates or timestamps."""
        return bool(pa.types.is_integer(self._kind))

    def shown(self, tick: int | float) -> str:
        """A time in ticks, as text that has all of them."""
        return exact_time(tick, self._kind)

    def read(self, text: str) -> int | float | None:
        """A time in ticks from the text of `shown`; None if it is none."""
        return read_exact_time(text, self._kind)

    def moment(self, as_of: Any) -> int | float:
        """A given time in ticks, or that of now for None.

        Raises:
            DataError: It is no time of the log, or is needed.
        """
        if isinstance(as_of, str) and ticks_per_second(self._kind) is None:
            with contextlib.suppress(ValueError):  # a request has a fraction of a number as text
                as_of = float(as_of)
        tick = self.now() if as_of is None else to_tick(as_of, self._kind)
        if tick is not None:
            return tick
        if as_of is None:
            raise DataError(
                "`as_of`: expected a time, as the times of the log are numbers of an unknown "
                "unit. Set `data.time_unit` in the experiment and make the state again, or send "
                "`as_of`."
            )
        raise DataError(f"`as_of`: expected {time_words(self._kind)}. Received: {as_of!r}.")
