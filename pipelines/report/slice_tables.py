"""The worst slices of an evaluation: in words, on the console."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pipelines.report.numbers import count, decimal, number_table
from pipelines.report.segment_tables import titled

Slices = Mapping[str, Any]


def print_slices(console: Console, metrics: Mapping[str, Any]) -> None:
    """Prints the confirmed slices of each task, and the sentence on the search.

    Args:
        console: The console.
        metrics: The content of an evaluation's metrics.json.
    """
    for task, metrics_of_task in metrics["tasks"].items():
        if slices := metrics_of_task.get("slices"):
            console.print(f"{escape(task)}: {escape(outcome(slices))}")
            if slices["reported"]:
                console.print(_table(slices))


def _table(slices: Slices) -> Table:
    heads = ("rows", "positives", "excess to rest", "95 %", "calibration")
    table = number_table("slice", heads)
    for entry in slices["reported"]:
        confirmed = entry["confirmed"]
        table.add_row(
            escape(titled(entry)),
            count(entry["rows"]),
            count(entry["positives"]),
            f"{confirmed['excess_logloss_difference']:+.4f}",
            effect_ends(confirmed),
            decimal(entry["calibration"], 3),
        )
    return table


def outcome(slices: Slices) -> str:
    """The result of the search in a sentence."""
    if not slices["searched"]:
        return "no slice has enough rows in each half of the users, so none was searched."
    searched = f"{slices['searched']:,} slices searched, {slices['tested']:,} tested"
    confirmed = len(slices["reported"])
    if not confirmed:
        return f"{searched}, none confirmed: on these rows no slice is surely worse than the rest."
    return f"{searched}, {confirmed} confirmed."


def effect_ends(effect: Mapping[str, Any]) -> str:
    """The ends of the interval of an effect."""
    low, high = effect["interval"]
    return f"{low:+.4f} to {high:+.4f}"


def small(p: float) -> str:
    """A probability with three places."""
    return "<0.001" if p < 0.001 else f"{p:.3f}"
