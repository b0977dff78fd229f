"""One table of `[[data.aggregates]]`, a feature over time, and the check of its columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import pyarrow as pa
from pydantic import Field, model_validator

from serving.state.columns.arrow_kinds import is_number
from serving.state.columns.labels import LABEL_ADVICE
from serving.state.columns.times import check_time_type
from serving.state.definitions.durations import Duration, check_durations, check_unit, in_ticks
from serving.state.definitions.rule import Rule
from serving.state.definitions.table import DefinitionTable
from serving.state.errors import DataError, require_column

PRIOR_STRENGTH = 20.0
_DURATIONS = ("window", "delay", "resolution", "forget_after")
_OF = ("rate", "sum", "mean", "distinct")  # kinds of the values of a column
_LAST = _OF  # of the last n events, which always number n and whose newest is always the newest


class AggregateOptions(DefinitionTable):
    """A number made of the earlier events with the same `by`.

    The experiment file may leave out `name`, and may have lists for `of` and `by`; here each is
    one.

    Attributes:
        name: The new column; `{of}` and `{by}` in it stand for the values of these keys. None: the
            values of the other keys, such as `click_rate_by_user_id_7d`.
        kind: `"count"` of events; `"rate"`: `(positives + strength * prior) / (events +
            strength)`; `"sum"` or `"mean"` of a number; `"since_last"`: time since the newest
            event, in seconds if `time` is a date or timestamp; `"distinct"`: number of different
            values.
        by: Column or columns of the key, such as the user; rows of equal values share a past. A
            row where one is null or `""` has none. Of several, name the user first: a store on
            Valkey or Redis reads all of a user's pairs at once. A list of lists, such as
            `[["user_id"], ["user_id", "item_id"]]`, is several keys: an aggregate for each.
        time: Column that orders the events. Only strictly earlier events count; for the rows of a
            request, those before its earliest time.
        of: Column of the values; for a rate a label. Rows where it is null or `""` are no
            events. A list is several columns: an aggregate of each.
        where: Label column; only rows with 1 are events.
        window: Only events of this time before the row: `"90s"`, `"30m"`, `"1h"`, `"7d"`, `"2w"`;
            if `time` holds numbers, a number in its unit.
        resolution: The step in which the start of `window` moves, written like it. Set it where
            a key may have thousands of events in its window: one sum per step is kept of them,
            in place of each event. None: the start moves with the row.
        last: Only this many last events.
        delay: How much later than its event a label is known: a row sees the events of this much
            earlier. Written like `window`, whose end it moves.
        forget_after: A key without a row for so long starts anew. Set it where keys come and go,
            such as sessions, so that an online store does not hold them for ever.
        prior_strength: Events that the prior of a rate counts for; 0: no prior.
        prior_rate: The prior. None: the rate of all earlier events, whatever their key.
    """

    name: str
    kind: Literal["count", "rate", "sum", "mean", "since_last", "distinct"]
    by: str | tuple[str, ...]
    time: str
    of: str | None = None
    where: str | None = None
    window: Duration | None = None
    resolution: Duration | None = None
    last: int | None = Field(default=None, ge=1)
    delay: Duration | None = None
    forget_after: Duration | None = None
    prior_strength: float = Field(default=PRIOR_STRENGTH, ge=0)
    prior_rate: float | None = Field(default=None, ge=0, le=1)

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns of `by`."""
        return (self.by,) if isinstance(self.by, str) else self.by

    @property
    def roles(self) -> dict[str, tuple[str, ...]]:
        """The columns that each key names."""
        named = {"by": self.keys, "time": (self.time,), "of": (self.of,), "where": (self.where,)}
        return {role: tuple(n for n in names if n is not None) for role, names in named.items()}

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that it reads."""
        return tuple(name for names in self.roles.values() for name in names)

    def rule(self, ticks: int | None) -> Rule:
        """The events that it counts.

        Args:
            ticks: Units of a second in the times; None if they are numbers.
        """
        durations = {
            key: in_ticks(value, ticks)
            for key in ("window", "delay", "resolution")
            if (value := getattr(self, key)) is not None
        }
        forgets = self.forget_after is not None
        return Rule(self.kind, ticks or 1, **durations, last=self.last, forgets=forgets)

    @model_validator(mode="after")
    def _check(self) -> AggregateOptions:
        if not self.keys or len(set(self.keys)) < len(self.keys):
            raise ValueError(
                f"`by` must name one column, or several different ones. Received: {self.by!r}"
            )
        if (self.of is None) == (self.kind in _OF):
            needs = "needs `of`, the column of its values" if self.of is None else "takes no `of`"
            raise ValueError(f"kind = {self.kind!r} {needs}. Received: of={self.of!r}")
        if self.last is not None and (self.kind not in _LAST or self.window is not None):
            raise ValueError(
                f"`last` belongs to {', '.join(map(repr, _LAST))} without a `window`. Received: "
                f"kind={self.kind!r}, last={self.last}, window={self.window!r}"
            )
        if self.kind != "rate" and (self.prior_strength, self.prior_rate) != (PRIOR_STRENGTH, None):
            raise ValueError(
                "`prior_strength` and `prior_rate` belong to kind = 'rate'. Received: "
                f"kind={self.kind!r}"
            )
        check_durations((key, getattr(self, key)) for key in _DURATIONS)
        if self.resolution is not None and (self.window is None or self.kind == "since_last"):
            raise ValueError(
                "`resolution` is the step of a `window` of events that are counted. Received: "
                f"kind={self.kind!r}, window={self.window!r}"
            )
        if self.forget_after is not None and self.window is not None:
            raise ValueError(
                "`forget_after` and `window` both end the past; give one of them. Received: "
                f"forget_after={self.forget_after!r}, window={self.window!r}"
            )
        return self


def check_aggregates(schema: pa.Schema, aggregates: Sequence[AggregateOptions], where: str) -> None:
    """Raises an error that names the key whose column is missing or of another type."""
    for aggregate in aggregates:
        for role, names in aggregate.roles.items():
            for name in names:
                key = f"data.aggregates {aggregate.name!r}: {role}"
                require_column(schema.names, name, key, where)
                if role == "time":
                    check_time_type(schema.field(name).type, name, key, where)
                    continue
                expected = _unlike(aggregate, role, schema.field(name).type)
                if expected is not None:
                    advice = f" {LABEL_ADVICE}" if "label" in expected else ""
                    raise DataError(
                        f"{where}: column {name!r} ({key}): expected {expected}, received "
                        f"{schema.field(name).type}.{advice}"
                    )
        if aggregate.name in schema.names:
            raise DataError(
                f"{where}: the aggregate {aggregate.name!r} would replace a column of that name; "
                "give data.aggregates another `name`."
            )
        kind = schema.field(aggregate.time).type
        for key in _DURATIONS:
            named = f"data.aggregates {aggregate.name!r}: {key}"
            check_unit(getattr(aggregate, key), named, aggregate.time, kind, where)


def _unlike(aggregate: AggregateOptions, role: str, kind: pa.DataType) -> str | None:
    """The type that a column must have, in words, if it has another."""
    if role == "where" or (role == "of" and aggregate.kind == "rate"):
        return None if is_number(kind) else "a label of 0, 1 or null"
    if role == "of" and aggregate.kind != "distinct":
        return None if is_number(kind) else "a number"
    return "one value per row" if pa.types.is_nested(kind) else None
