"""The interface of a log, and the rows that it gives."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from serving.state.definitions.definition import StateDefinition
from serving.state.errors import DataError
from serving.state.online.event_rows import rows_of, rows_of_table
from serving.state.online.group_batch import Places

BATCH_ROWS = 10_000  # events that are added together


class Events(Protocol):
    """Some events of a log, not yet in the types of the state."""

    def __len__(self) -> int:
        """The number of events."""

    def fault(self, definition: StateDefinition) -> str | None:
        """Why no event can be a row of a state; None: some may be."""

    def table(self, rows: Sequence[int], definition: StateDefinition) -> pa.Table:
        """Some of the events as rows of a state.

        Raises:
            DataError: A column is missing, or a value is of another type.
        """

    def shown(self, row: int) -> Any:
        """One event as plain data."""


@dataclass(frozen=True)
class LogRows:
    """Events of a log that are added together.

    Attributes:
        source: Name of the file, or of the partition.
        numbers: `(rows,)`, where each event is there: its row, its first byte, or its offset.
        places: Their places in the log.
        events: The events.
    """

    source: str
    numbers: np.ndarray
    places: Places
    events: Events


class Log(Protocol):
    """A log of events."""

    def unread(self) -> Iterator[LogRows]:
        """All that is there and that the state has not, in order; each part is added before the
        next one is asked for."""

    def close(self) -> None:
        """Ends the use of the log."""


class TableEvents:
    """Events of a Parquet file."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def fault(self, definition: StateDefinition) -> str | None:
        """As `Events`."""
        try:
            rows_of_table(self._table.slice(0, 0), definition.event_columns, "the file")
        except DataError as error:
            return str(error)
        return None

    def table(self, rows: Sequence[int], definition: StateDefinition) -> pa.Table:
        """As `Events`."""
        chosen = self._table if len(rows) == len(self) else self._table.take(pa.array(rows))
        return rows_of_table(chosen, definition.event_columns, "the event")

    def shown(self, row: int) -> Any:
        """As `Events`."""
        return self._table.slice(row, 1).to_pylist()[0]


class JsonEvents:
    """Events as JSON objects.

    Args:
        texts: One object each.
    """

    def __init__(self, texts: Sequence[bytes]) -> None:
        self._texts = texts
        self._events = [parsed(text) for text in texts]

    def __len__(self) -> int:
        return len(self._texts)

    def fault(self, definition: StateDefinition) -> str | None:
        """As `Events`."""
        return None

    def table(self, rows: Sequence[int], definition: StateDefinition) -> pa.Table:
        """As `Events`."""
        events: list[Mapping[str, Any]] = []
        for row in rows:
            event = self._events[row]
            if event is None:
                raise DataError("The event: expected a JSON object. Received: other text.")
            events.append(event)
        return rows_of(events, definition.event_columns, [definition.time])

    def shown(self, row: int) -> Any:
        """As `Events`."""
        event = self._events[row]
        return self._texts[row].decode(errors="replace") if event is None else event


def parsed(text: bytes) -> Mapping[str, Any] | None:
    """The object of a JSON text; None if it is none."""
    try:
        event = json.loads(text)
    except ValueError:
        return None
    return event if isinstance(event, dict) else None


def log_id(name: str) -> int:
    """The id of the log of a name."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), signed=True)
