"""The gates of an evaluation: in words, on the console."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from pipelines.report.numbers import count, decimal, number_table

PASSED, FAILED, UNDECIDED = "passed", "failed", "not decided"
_STYLES = {PASSED: "green", FAILED: "bold red", UNDECIDED: "dim"}
Gate = Mapping[str, Any]


def print_gates(console: Console, metrics: Mapping[str, Any]) -> None:
    """Prints each gate with its number and its result.

    Args:
        console: The console.
        metrics: The content of an evaluation's metrics.json.
    """
    if not metrics.get("gates"):
        return
    table = number_table("metric", ("rows", "value", "expected"), "gates")
    table.add_column("")
    for gate in metrics["gates"]:
        result = gate["result"]
        table.add_row(
            escape(subject(gate)),
            count(gate["counted"]),
            measured(gate),
            limits(gate),
            f"[{_STYLES[result]}]{result}[/]",
        )
    console.print(table)


def subject(gate: Gate) -> str:
    """The gated number: `auc of click, device=tablet, less that of clicks`."""
    segment = "" if gate["segment"] is None else f", {gate['segment']}"
    other = f", less that of {Path(gate['against']).name}" if gate.get("against") else ""
    return f"{gate['metric']} of {gate['task']}{segment}{other}"


def measured(gate: Gate) -> str:
    """The value, and with `by = "interval"` the interval."""
    if gate["value"] is None:
        return "not defined"
    value = decimal(gate["value"])
    if gate["by"] == "value":
        return value
    ends = gate["interval"]
    return f"{value} (no interval)" if ends is None else f"{value} ({ends[0]:.4f}..{ends[1]:.4f})"


def limits(gate: Gate) -> str:
    """`at least 0.7`, `at most 0.3`, or `0.9 to 1.1`."""
    low, high = gate["at_least"], gate["at_most"]
    if low is not None and high is not None:
        return f"{low:g} to {high:g}"
    return f"at most {high:g}" if low is None else f"at least {low:g}"
