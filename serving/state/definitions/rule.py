"""The rule of a feature over time: the events that it counts, in the unit of their times."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

# The integers of an event, by kind. All but those of `VALUED` are added up.
PARTS: dict[str, tuple[str, ...]] = {
    "count": ("events",),
    "rate": ("events", "positives"),
    "sum": ("events", "whole", "fraction"),
    "mean": ("events", "whole", "fraction"),
    "since_last": ("events",),
    "distinct": ("value", "more"),
    "history": ("known", "value"),
}
VALUED = ("distinct", "history")


@dataclass(frozen=True)
class Rule:
    """The events that count at a moment: `moment - delay - window <= time < moment - delay`.

    Attributes:
        kind: A key of `PARTS`.
        second: Ticks of a second; 1 if times are numbers.
        window: Length of the window; None: all events.
        delay: How much earlier than the moment the window ends.
        resolution: The step in which the window's start moves; None: it moves with the moment.
        last: How many last events count; None: all.
        forgets: Whether a key without a row for long starts anew.
    """

    kind: str
    second: int
    window: int | float | None = None
    delay: int | float = 0
    resolution: int | float | None = None
    last: int | None = None
    forgets: bool = False

    @cached_property
    def width(self) -> int:
        """How many integers an event has."""
        return len(PARTS[self.kind])

    @cached_property
    def adds(self) -> bool:
        """Whether the integers of events are added up."""
        return self.kind not in VALUED

    @cached_property
    def whole(self) -> bool:
        """Whether all events count, however old."""
        return self.window is None and self.last is None and self.kind != "since_last"

    @cached_property
    def has_totals(self) -> bool:
        """Whether old events are one sum."""
        return self.whole and self.adds and not self.forgets
