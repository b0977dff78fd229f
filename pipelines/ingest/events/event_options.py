"""The `[data]` table of a sequence model: an event log, what is kept of it, and its split."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from pipelines.common.toml_table import TomlTable
from pipelines.ingest.data_options import DataOptions
from pipelines.ingest.split_options import Cut, check_cuts

AGE, SESSION, COUNT = "age", "session", "count"  # columns that ingest makes
SERVED = ("candidate", "exclude", "state", "user")  # further inputs of the exported model


class EventSplit(TomlTable):
    """The `[data.split]` table: which events are the targets of validation and test.

    Attributes:
        by: `"last"`: each user's last event is the test target and the one before it the
            validation target, so that every user counts; events of one user may be later than
            the target of another. `"time"`: the targets are each user's first events from
            `valid_from` and from `test_from` on, and only events before `valid_from` train, as a
            model in use sees them.
        valid_from: The first time of validation: a number or, of dates and text, a date or a time
            such as 2025-11-01. Times without a zone are UTC.
        test_from: The first time of test, later than `valid_from`.
    """

    by: Literal["last", "time"] = "last"
    valid_from: Cut = None
    test_from: Cut = None

    @model_validator(mode="after")
    def _cuts_fit(self) -> EventSplit:
        cuts = self.valid_from, self.test_from
        if self.by == "time" and None in cuts:
            raise ValueError(
                'by = "time" needs `valid_from` and `test_from`. Received: '
                f"valid_from={cuts[0]!r}, test_from={cuts[1]!r}"
            )
        check_cuts(self.by, *cuts)
        return self


class EventOptions(TomlTable):
    """The `[data]` table of a sequence model.

    Attributes:
        source: `"events"`: Parquet files with one row per event. `"movielens-1m"`: all ratings,
            with `user_id`, `item_id`, `timestamp` and `rating`.
        path: File, folder or list of them; `${NAME}` is replaced by an environment variable.
            `events` also reads URIs such as s3://. None: MovieLens is downloaded.
        user: Column of the user.
        item: Column of the item.
        time: Column of the time: seconds since 1970 as numbers, dates, timestamps or ISO 8601
            text.
        columns: Further columns to keep as lists beside the items, such as the kind of an event:
            strings or integers. Cut other numbers into ranges first.
        session: Column of the session. Null and `""` are one session of a user too.
        session_gap: In place of `session`: an event this many seconds or more after the one
            before it starts a new session. 1800 is common on the web.
        min_item_events: Items with fewer events are left out. Raise it if the catalogue has many
            items that are too rare to learn.
        min_user_events: Users with fewer events left are left out.
        split: The division into train, valid and test.
    """

    source: Literal["events", "movielens-1m"] = "events"
    path: str | tuple[str, ...] | None = None
    user: str
    item: str
    time: str
    columns: tuple[str, ...] = ()
    session: str | None = None
    session_gap: float | None = Field(default=None, gt=0)
    min_item_events: int = Field(default=1, ge=1)
    min_user_events: int = Field(default=2, ge=2)
    split: EventSplit = EventSplit()

    @model_validator(mode="after")
    def _fit_together(self) -> EventOptions:
        if self.source == "events" and not self.path:
            raise ValueError(
                "`path` must name the Parquet file or folder of events. Received: none"
            )
        if self.source != "events" and isinstance(self.path, tuple):
            raise ValueError(
                f"`path` must be one file or folder for the source {self.source!r}. "
                f"Received: {list(self.path)}"
            )
        if self.session is not None and self.session_gap is not None:
            raise ValueError(
                "`session` and `session_gap` both say where sessions begin; remove one. Received: "
                f"session={self.session!r}, session_gap={self.session_gap:g}"
            )
        if len(set(self.named)) < len(self.named):
            raise ValueError(
                "`user`, `item`, `time`, `session` and `columns` must name different columns. "
                f"Received: {list(self.named)}"
            )
        made = {AGE, SESSION} & {self.user, self.item, *self.columns} | {COUNT} & {self.item}
        if made:
            raise ValueError(
                f"ingest makes columns {AGE!r}, {SESSION!r} and, beside the items, {COUNT!r}; "
                f"rename those of the events. Received: {sorted(made)}"
            )
        clashing = sorted({self.item, *self.columns}.intersection(SERVED))
        if clashing:
            raise ValueError(
                f"the exported model has inputs {', '.join(map(repr, SERVED))} of its own; rename "
                f"such columns of the events. Received: {clashing}"
            )
        return self

    @property
    def has_sessions(self) -> bool:
        """Whether rows have a list `session`."""
        return self.session is not None or self.session_gap is not None

    @property
    def named(self) -> tuple[str, ...]:
        """The columns that are read."""
        session = () if self.session is None else (self.session,)
        return (self.user, self.item, self.time, *session, *self.columns)

    @property
    def reading(self) -> DataOptions:
        """The source and the path, as readers take them."""
        source = "parquet" if self.source == "events" else self.source
        return DataOptions(source=source, path=self.path)

    def stamps(self) -> dict[str, str]:
        """Size and modification time of the source files; a change makes ingest run again."""
        return self.reading.stamps()
