"""One table of `[[data.histories]]`: a list of earlier values."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from serving.state.definitions.durations import Duration, check_durations
from serving.state.definitions.rule import Rule
from serving.state.definitions.table import DefinitionTable


class HistoryOptions(DefinitionTable):
    """A history: a list column of earlier values with the same `by`.

    The experiment file may have lists for `of` and `by`; here each is one.

    Attributes:
        name: The new column; `{of}` and `{by}` in it stand for the values of these keys.
        of: Column whose past values it lists, oldest first. A list is several columns: a
            history of each.
        by: Column of the owner, such as the user; equal values share one history, and a row
            whose owner is null or `""` has an empty one. A list of lists, such as
            `[["user_id"], ["session_id"]]`, is several columns: a history for each.
        time: Column that orders the events. Only strictly earlier events count; for the rows of a
            request, those before its earliest time.
        where: Label column; only rows with 1 become events.
        max_length: Number of last events to keep.
        ages: Whether to list how long before the row (or its request) each event was, in seconds
            if `time` is a date or a timestamp and else in its unit. `of` is then the same column as
            `time`.
        forget_after: As for `[[data.aggregates]]`: an owner without a row for so long starts
            anew.
    """

    name: str
    of: str
    by: str
    time: str
    where: str | None = None
    max_length: int = Field(default=50, ge=1)
    ages: bool = False
    forget_after: Duration | None = None

    @model_validator(mode="after")
    def _ages_of_times(self) -> Self:
        if self.ages and self.of != self.time:
            raise ValueError(
                "`ages` are those of `time`, so `of` must name the same column. Received: "
                f"of={self.of!r}, time={self.time!r}"
            )
        check_durations([("forget_after", self.forget_after)])
        return self

    @property
    def keys(self) -> tuple[str, ...]:
        """The column of `by`, as of an aggregate."""
        return (self.by,)

    @property
    def roles(self) -> dict[str, tuple[str, ...]]:
        """The columns that each key names."""
        named = {"of": self.of, "by": self.by, "time": self.time, "where": self.where}
        return {role: (name,) for role, name in named.items() if name is not None}

    def rule(self, ticks: int | None) -> Rule:
        """The events that it lists.

        Args:
            ticks: Units of a second in the times; None if they are numbers.
        """
        forgets = self.forget_after is not None
        return Rule("history", ticks or 1, last=self.max_length, forgets=forgets)
