"""The data section of the page: drift of features, times and machines in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.report.numbers import ABSENT
from pipelines.report.plots import Picture
from pipelines.report.skew_plots import shares

_SIDES = "train", "evaluated"


def pictures_of_drift(drift: Sequence[Mapping[str, Any]]) -> dict[str, Picture]:
    """The shares of the features that drifted most, by name."""
    return {entry["feature"]: shares(entry["bins"], _SIDES) for entry in drift if "bins" in entry}


def drifted(drift: Sequence[Mapping[str, Any]], split: str) -> str:
    """`2 of 7 features drifted from the train to the test rows: price, country`."""
    names = [entry["feature"] for entry in drift if entry["drifted"]]
    listed = f": {', '.join(names[:5])}{', ...' if len(names) > 5 else ''}" if names else ""
    count = len(names) or "None"
    return f"{count} of {len(drift)} features drifted from the train to the {split} rows{listed}"


def moved(pair: Sequence[float | None] | None) -> str:
    """`2% → 7%`, one share if both are the same, or a dash."""
    if pair is None or None in pair:
        return ABSENT
    before, after = (f"{100 * (share or 0):.3g}%" for share in pair)
    return before if before == after else f"{before} → {after}"


def machine_text(machine: Mapping[str, Any]) -> str:
    """The processor, cores, memory and accelerators of a machine."""
    memory = f"{machine['memory'] / 2**30:.0f} GiB"
    parts = [f"{machine['processor']}, {machine['cores']} cores, {memory}"]
    return ", ".join([*parts, *machine["accelerators"]])


def took(seconds: Mapping[str, float]) -> str:
    """`ingest 3.1 s, train 60.0 s`."""
    return ", ".join(f"{step} {value:,.1f} s" for step, value in seconds.items())
