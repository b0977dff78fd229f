"""Aggregates and histories that logs of shown items live on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pipelines.proposal.features import Proposed
from pipelines.proposal.looked_at import Column
from pipelines.proposal.roles import Roles

_OFTEN = 2.0  # rows of a key in the mean
_REPEATED = 0.02  # rows whose user has seen the item before
_OF_ITEMS = 3  # items of a value of a property in the mean
_EVENTS = 20  # of a history


class OverTime(NamedTuple):
    """Proposed entries of `[data]`, each below a comment.

    Attributes:
        aggregates, histories: Comments and entries.
        remarks: What is left out, and why.
    """

    aggregates: list[tuple[str, dict[str, Any]]]
    histories: list[tuple[str, dict[str, Any]]]
    remarks: list[str]


def propose_over_time(proposed: Sequence[Proposed], roles: Roles) -> OverTime:
    """Aggregates and histories of the labels, by user, item and both."""
    if roles.time is None:
        remark = "No features over time: no column tells when a row was. Name it: --time COLUMN"
        return OverTime([], [], [remark])
    remarks: list[str] = []
    user, item = (_often(column, what, remarks) for column, what in _ids(roles))
    keys = [[column.name] for column in (user, item) if column is not None]
    properties = _properties(proposed, roles.item) if item is not None else []
    if user is not None and item is not None and roles.item is not None:
        if _repeated(user, item) >= _REPEATED:
            keys.append([user.name, item.name])
        else:
            remarks.append("Users hardly meet an item twice, so nothing is counted by both.")
        keys += [[user.name, name] for name in properties]
    aggregates = _aggregates(keys, user, roles) if keys else []
    histories = []
    if user is not None and roles.item is not None:
        label = max(roles.labels, key=lambda column: float(column.numbers.sum()))
        entry = {"name": f"{label.name}_{{of}}_history", "of": [roles.item.name, *properties]}
        entry |= {"by": user.name, "time": roles.time.name, "where": label.name}
        comment = f"The last items of the user with {label.name}."
        histories = [(comment, {**entry, "max_length": _EVENTS})]
    return OverTime(aggregates, histories, remarks)


def _ids(roles: Roles) -> list[tuple[Column | None, str]]:
    return [(roles.user, "user"), (roles.item, "item")]


def _often(column: Column | None, what: str, remarks: list[str]) -> Column | None:
    """The ids, if they come again; else a remark is added."""
    if column is None:
        remarks.append(f"No column has the name of {what} ids. Name it: --{what} COLUMN")
        return None
    if len(column.values) < _OFTEN * column.distinct:
        remarks.append(f"Most values of {column.name} have one row, so nothing is counted by it.")
        return None
    return column


def _repeated(user: Column, item: Column) -> float:
    """The share of the rows whose user had a row of the item before."""
    pairs = np.unique(user.codes * item.distinct + item.codes)
    return 1 - len(pairs) / len(user.codes)


def _properties(proposed: Sequence[Proposed], item: Column | None) -> list[str]:
    """The categorical property of items with the most values that still join items; or none."""
    fit = [
        p.column
        for p in proposed
        if item is not None and p.feature is not None and p.column is not item
        if p.feature["kind"] == "categorical" and not p.feature.get("multivalued")
        if p.column.by(item) and 1 < p.column.distinct <= item.distinct / _OF_ITEMS
    ]
    best = max(fit, key=lambda column: column.distinct, default=None)
    return [] if best is None else [best.name]


def _aggregates(
    keys: list[list[str]], user: Column | None, roles: Roles
) -> list[tuple[str, dict[str, Any]]]:
    """Rates, counts and times since, by the keys."""
    labels: Any = [label.name for label in roles.labels]
    first = max(roles.labels, key=lambda column: float(column.numbers.sum())).name
    time = {"time": roles.time.name if roles.time is not None else ""}
    by: Any = keys if len(keys) > 1 else keys[0][0]
    of: Any = labels if len(labels) > 1 else labels[0]
    entries: list[tuple[str, dict[str, Any]]] = [
        ("How often it became of what was shown.", {"kind": "rate", "of": of, "by": by, **time}),
    ]
    if user is not None:
        last = {"kind": "rate", "of": of, "by": user.name, **time, "last": 5}
        entries.append(("The last five rows of the user.", last))
    since = {"kind": "since_last", "by": by, **time}
    return [
        *entries,
        ("How much is known of each, and how popular it is.", {"kind": "count", "by": by, **time}),
        ("The time since it was shown last.", since),
        (f"The time since the last {first}.", {**since, "where": first}),
    ]
