"""The report of drift and skew: a table on the console and one HTML file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from pipelines.common.artifacts import atomic_file
from pipelines.report import skew_plots
from pipelines.report.html import environment
from pipelines.report.numbers import ABSENT, count, decimal, number_table
from pipelines.report.plots import Picture
from pipelines.report.state_table import STATE_HEADS, by_share, print_state, state_cells, state_line

_STYLES = {"shifted": "bold red", "watch": "yellow", "few rows": "dim"}
_ORDER = ("shifted", "watch", "few rows", "stable")


def write_skew_report(result: Mapping[str, Any], name: str, out_file: Path) -> None:
    """Writes a self-contained HTML file of the results of `measure_skew`.

    Args:
        result: Its result.
        name: The experiment's name.
        out_file: The file to write.
    """
    ordered = _ordered(result["features"])
    page = (
        environment()
        .get_template("skew.html")
        .render(
            name=name,
            found=result,
            features=ordered,
            pictures=_pictures(result, ordered),
            counts={status: _count(result, status) for status in _ORDER},
            state=_state(result["state"]),
        )
    )
    with atomic_file(out_file) as part:
        part.write_text(page, encoding="utf-8")


def print_skew(console: Console, result: Mapping[str, Any]) -> None:
    """Prints a line per feature and task, the largest shift first, then recomputed scores."""
    calls = sum(part["calls"] for part in result["calls"])
    title = (
        f"{result['model']}: {calls:,} calls, {result['rows']:,} rows against {result['reference']}"
    )
    table = number_table("", ("", "PSI", "JS", "missing", "unknown"), title)
    for label, part in _ordered(result["features"]).items():
        cells = (decimal(_index(part), 3), decimal(part["js"], 3))
        shares = (_change(part["missing"]), _change(part["unknown"]))
        style = _STYLES.get(part["status"], "")
        table.add_row(escape(label), part["status"], *cells, *shares, style=style)
    for label, part in result["tasks"].items():
        cells = (decimal(part["psi"], 3), decimal(part["js"], 3))
        style = _STYLES.get(part["status"] or "", "")
        status = part["status"] or ABSENT
        table.add_row(escape(f"score of {label}"), status, *cells, "", "", style=style)
    console.print(table)
    console.print(f"  {escape(recomputed_line(result['recomputed']))}", soft_wrap=True)
    for reason, number in result["unreadable"].items():
        console.print(f"  {number:,} calls left out: {escape(reason)}", soft_wrap=True)
    if result["state"] is not None:
        print_state(console, result["state"])


def recomputed_line(comparison: Mapping[str, Any]) -> str:
    """A sentence on the recomputed scores."""
    if comparison["note"]:
        return str(comparison["note"])
    worst = comparison["max_abs_difference"]
    difference = "not a number" if worst is None else f"{worst:.1e}"
    return (
        f"{comparison['rows']:,} rows of {comparison['calls']:,} calls scored again: largest "
        f"difference {difference}, {comparison['over']:,} over {comparison['tolerance']:g}"
    )


def _state(state: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The texts of the section of the store."""
    if state is None:
        return None
    return {
        "line": state_line(state),
        "heads": STATE_HEADS,
        "rows": {
            name: (*state_cells(column), column["where"])
            for name, column in by_share(state).items()
        },
        "notes": state["notes"],
        "left_out": state["left_out"],
    }


def _ordered(features: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Features by shift, the largest first."""
    return dict(
        sorted(
            features.items(), key=lambda item: (_ORDER.index(item[1]["status"]), -_index(item[1]))
        )
    )


def _index(part: Mapping[str, Any]) -> float:
    """The larger of the indices of a feature's values and of its lengths."""
    return max(part["psi"], part["lengths"]["psi"] if part["lengths"] else 0.0)


def _change(shares: Mapping[str, float | None] | None) -> str:
    """`2% > 7%`, or a dash if undefined."""
    texts = [f"{100 * share:.3g}%" for share in (shares or {}).values() if share is not None]
    if len(texts) < 2:
        return ABSENT
    before, after = texts
    return before if before == after else f"{before} > {after}"


def _pictures(
    result: Mapping[str, Any], features: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Picture]]:
    """Titles and pictures by section."""
    several = len(result["periods"]) > 1
    of_features = {}
    for name, part in features.items():
        of_features[name] = skew_plots.shares(part["bins"])
        if part["lengths"]:
            of_features[f"{name}, lengths"] = skew_plots.shares(part["lengths"]["bins"])
    of_scores = {}
    for name, part in result["tasks"].items():
        if part["bins"]:
            of_scores[name] = skew_plots.shares(part["bins"])
        if several:
            of_scores[f"{name}, over time"] = skew_plots.mean_scores(name, result["periods"])
    over_time = {"Features that moved most": skew_plots.drift(result["periods"])} if several else {}
    return {"features": of_features, "scores": of_scores, "time": over_time}


def _count(result: Mapping[str, Any], status: str) -> str:
    return count(sum(part["status"] == status for part in result["features"].values()))
