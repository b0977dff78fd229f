"""Turns trivago's sessions into rows: one per item of a list with a click.

Two heuristics come along as scores, higher is better: the shown position, and the items of the
session's earlier actions, the latest first, before the others by position.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from serving.state.columns.times import hour_and_weekday, ticks_per_second, to_ticks
from serving.state.errors import require_column

CLICKOUT = "clickout item"
MAX_HISTORY = 100
_ROLE = "a column of trivago's train.csv"
_NEEDED = ("user_id", "session_id", "timestamp", "step", "action_type", "reference", "impressions")
_BONUS = 100_000.0  # above any step, so that items of earlier actions come first

_TEXT, _INT, _FLOAT = pa.string(), pa.int64(), pa.float32()
ROWS = pa.schema(
    {
        "request_id": _TEXT,
        "session_id": _TEXT,
        "user_id": _TEXT,
        "timestamp": _INT,
        "step": _INT,
        "platform": _TEXT,
        "city": _TEXT,
        "device": _TEXT,
        "current_filters": pa.list_(_TEXT),
        "last_action_type": _TEXT,
        "acted_items": pa.list_(_TEXT),
        "acted_types": pa.list_(_TEXT),
        "item_id": _TEXT,
        "position": _INT,
        "position_value": _FLOAT,
        "price": _FLOAT,
        "price_rank": _FLOAT,
        "price_to_mean": _FLOAT,
        "actions_on_item": _INT,
        "steps_since_item": _INT,
        "is_last_item": _INT,
        "click": pa.int8(),
        "heuristic_position": _FLOAT,
        "heuristic_last_item": _FLOAT,
    }
)
_CONTEXT = ROWS.names[: ROWS.names.index("item_id")]


def lists_of_sessions(actions: pa.Table, where: str) -> pa.Table:
    """The rows of a table of whole sessions."""
    for name in _NEEDED:
        require_column(actions.column_names, name, _ROLE, where)
    place = actions.column_names.index("timestamp")
    seconds = to_ticks(actions["timestamp"], "timestamp", _ROLE, where)
    seconds = seconds // (ticks_per_second(actions["timestamp"].type) or 1)
    actions = actions.set_column(place, "timestamp", pa.array(seconds.astype(np.int64)))
    lists = [
        (context, candidates)
        for session, visit in _visits(actions.to_pylist())
        for context, candidates in _lists(session, visit)
    ]
    lengths = [len(candidates["item_id"]) for _, candidates in lists]
    index = pa.array(np.repeat(np.arange(len(lists)), lengths))
    columns: dict[str, Any] = {}
    for name in ROWS.names:
        kind = ROWS.field(name).type
        if name in _CONTEXT:
            columns[name] = pa.array([context[name] for context, _ in lists], kind).take(index)
        else:
            values = [value for _, candidates in lists for value in candidates[name]]
            columns[name] = pa.array(values, kind)
    table = pa.table(columns)
    hour, weekday = hour_and_weekday(table["timestamp"])
    return table.append_column("hour", hour).append_column("weekday", weekday)


def _visits(actions: list[dict[str, Any]]) -> Iterator[tuple[list[dict[str, Any]], int]]:
    """Runs of one session with rising steps; a session id that starts again is a new visit."""
    session: list[dict[str, Any]] = []
    visit = 0
    for action in actions:
        if session:
            last = session[-1]
            same = all(action[name] == last[name] for name in ("session_id", "user_id"))
            if not same or action["step"] < last["step"]:
                yield session, visit
                visit = visit + 1 if action["session_id"] == last["session_id"] else 0
                session = []
        session.append(action)
    if session:
        yield session, visit


def _lists(
    session: list[dict[str, Any]], visit: int
) -> Iterator[tuple[dict[str, Any], dict[str, list[Any]]]]:
    """Context and candidates of every list whose clicked item is in it."""
    for action in session:
        if action["action_type"] != CLICKOUT or not action["impressions"]:
            continue
        items = action["impressions"].split("|")
        if action["reference"] in items:
            earlier = [past for past in session if past["step"] < action["step"]]
            yield _context(action, earlier, visit), _candidates(action, items, earlier)


def _on_items(earlier: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Actions whose reference is an item; the others name a city, a filter or a sort order."""
    return [past for past in earlier if (past["reference"] or "").isdigit()]


def _context(action: dict[str, Any], earlier: list[dict[str, Any]], visit: int) -> dict[str, Any]:
    acted = _on_items(earlier)[-MAX_HISTORY:]
    filters = action["current_filters"]
    again = f".{visit}" if visit else ""
    copied = ("session_id", "user_id", "timestamp", "step", "platform", "city", "device")
    return {name: action[name] for name in copied} | {
        "request_id": f"{action['session_id']}{again}-{action['step']}",
        "current_filters": filters.split("|") if filters else [],
        "last_action_type": earlier[-1]["action_type"] if earlier else None,
        "acted_items": [past["reference"] for past in acted],
        "acted_types": [past["action_type"] for past in acted],
    }


def _candidates(
    action: dict[str, Any], items: list[str], earlier: list[dict[str, Any]]
) -> dict[str, list[Any]]:
    acted = _on_items(earlier)
    last_step = {past["reference"]: past["step"] for past in acted}
    count: dict[str, int] = {}
    for past in acted:
        count[past["reference"]] = count.get(past["reference"], 0) + 1
    last_item = acted[-1]["reference"] if acted else None
    position = range(1, len(items) + 1)
    since = [action["step"] - last_step[item] if item in last_step else None for item in items]
    return _prices(action["prices"], len(items)) | {
        "item_id": items,
        "position": list(position),
        "position_value": list(position),
        "actions_on_item": [count.get(item, 0) for item in items],
        "steps_since_item": since,
        "is_last_item": [int(item == last_item) for item in items],
        "click": [int(item == action["reference"]) for item in items],
        "heuristic_position": [-float(place) for place in position],
        "heuristic_last_item": [
            -float(place) if ago is None else _BONUS - ago
            for ago, place in zip(since, position, strict=True)
        ],
    }


def _prices(text: str | None, length: int) -> dict[str, list[Any]]:
    """Price, its rank in the list (1 = cheapest) and its ratio to the list's mean."""
    prices = [float(price) for price in text.split("|")] if text else []
    if len(prices) != length:
        return {name: [None] * length for name in ("price", "price_rank", "price_to_mean")}
    value = np.array(prices)
    rank = 1 + np.searchsorted(np.sort(value), value)  # equal prices share the lowest rank
    mean = value.mean() or 1.0
    return {
        "price": prices,
        "price_rank": rank.astype(float).tolist(),
        "price_to_mean": (value / mean).tolist(),
    }
