"""The table of the values that a store gave, against a replay of the events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape

from pipelines.report.numbers import ABSENT, count, number_table, percent, ratio

_SHARES = ("equal", "missing", "extra", "different")
STATE_HEADS = ("values", *_SHARES, "largest", "inserts", "deletes")


def state_cells(column: Mapping[str, Any]) -> tuple[str, ...]:
    """The texts below `STATE_HEADS` for one feature."""
    shares = (percent(ratio(column[name], column["rows"])) for name in _SHARES)
    largest = ABSENT if column["largest"] is None else f"{column['largest']:.4g}"
    edits = (count(column["inserts"]), count(column["deletes"]))
    return (count(column["rows"]), *shares, largest, *edits)


def state_line(state: Mapping[str, Any]) -> str:
    """A sentence on what was replayed."""
    return (
        f"{state['requests']:,} requests of {state['users']:,} users against "
        f"{state['replayed']:,} events of {state['events']}"
    )


def print_state(console: Console, state: Mapping[str, Any]) -> None:
    """Prints a line for each feature, the least equal first, and the causes."""
    table = number_table("", STATE_HEADS, f"store: {state_line(state)}")
    for name, column in by_share(state).items():
        style = "" if column["equal"] == column["rows"] else "bold red"
        table.add_row(escape(name), *state_cells(column), style=style)
    if state["columns"]:
        console.print(table)
    for note in state["notes"]:
        console.print(f"  [bold red]{escape(note)}[/bold red]", soft_wrap=True)
    for reason, number in state["left_out"].items():
        console.print(f"  {number:,} not compared: {escape(reason)}", soft_wrap=True)


def by_share(state: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The features by the share of equal values, the smallest first."""
    columns = state["columns"].items()
    return dict(sorted(columns, key=lambda item: item[1]["equal"] / item[1]["rows"]))
