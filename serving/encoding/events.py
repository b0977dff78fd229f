"""Pushed rows as messages: what a client adds to the store behind a server."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from serving.common.errors import InvalidFeature
from serving.encoding.raw_values import shortened
from serving.protos import state_pb2

if TYPE_CHECKING:
    from serving.state.online.writer import Added

_INT64 = np.iinfo(np.int64)


Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class PushedRows:
    """What a client pushes: values by column, None for null.

    Attributes:
        events: Rows of the log.
        users: Ids of users with their static features.
        items: Ids of items with their static features.
    """

    events: Rows = ()
    users: Rows = ()
    items: Rows = ()


def push_request(model: str, pushed: PushedRows) -> state_pb2.PushRequest:
    """The message of rows.

    Raises:
        InvalidFeature: A value is of a kind that no column of a table has.
    """
    request = state_pb2.PushRequest(model=model)
    for field in fields(pushed):
        of = field.name.removesuffix("s")
        rows = getattr(pushed, field.name)
        for number, row in enumerate(rows):
            if not isinstance(row, Mapping):
                raise InvalidFeature(
                    f"`{field.name}`: expected a list of rows, each with values by column name, "
                    f"such as [{{'user_id': 'u1'}}]. Received: {shortened(rows)}"
                )
            columns = getattr(request, field.name).add().columns
            for name, value in row.items():
                _write(columns[name], value, f"Column {name!r} of {of} {number}")
    return request


def read_push(request: state_pb2.PushRequest) -> PushedRows:
    """The rows of a message."""
    return PushedRows(_rows(request.events), _rows(request.users), _rows(request.items))


def _rows(rows: Iterable[state_pb2.Row]) -> list[dict[str, Any]]:
    return [{name: _read(value) for name, value in row.columns.items()} for row in rows]


def write_added(added: Added) -> state_pb2.PushResponse:
    """The answer: how many events were new, and the places of the others."""
    late, ahead = np.flatnonzero(added.late), np.flatnonzero(added.ahead)
    repeated = np.flatnonzero(added.repeated)
    return state_pb2.PushResponse(
        counted=len(added.late) - len(late) - len(ahead) - len(repeated),
        late=late.tolist(),
        ahead=ahead.tolist(),
        repeated_events=repeated.tolist(),
    )


def _write(target: state_pb2.Value, value: Any, place: str) -> None:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None:
        return
    if isinstance(value, datetime.date | datetime.datetime):
        value = value.isoformat()
    if isinstance(value, bool):
        target.flag = value
    elif isinstance(value, int) and _INT64.min <= value <= _INT64.max:
        target.whole = value
    elif isinstance(value, float):
        target.number = value
    elif isinstance(value, str):
        target.text = value
    elif isinstance(value, bytes):
        target.binary = value
    else:
        raise InvalidFeature(
            f"{place}: expected a string, bytes, a number within int64, a boolean, a time or None. "
            f"Received: {shortened(value)} ({type(value).__name__})"
        )


def _read(value: state_pb2.Value) -> Any:
    kind = value.WhichOneof("kind")
    return None if kind is None else getattr(value, kind)
