"""The model beside the baseline models, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pipelines.metrics import METRICS


def standings(metrics: Mapping[str, Any]) -> Iterator[str]:
    """A line for each task: whether the model is ahead of each baseline model, and by how much.

    Args:
        metrics: The content of an evaluation's metrics.json.
    """
    for task, of_task in metrics["tasks"].items():
        beside = {n: b["ahead"] for n, b in of_task.get("baseline_models", {}).items()}
        if beside:
            (metric,) = {METRICS[ahead["metric"]].title for ahead in beside.values()}
            placed = "; ".join(_standing(name, ahead) for name, ahead in beside.items())
            yield f"{task}, {metric} beside models on the same columns: {placed}"


def place(ahead: Mapping[str, Any]) -> int:
    """1 or -1 if the model is surely ahead or behind, else 0.

    Args:
        ahead: The model's difference to a baseline, with its interval.
    """
    low, high = ahead["interval"] or (0.0, 0.0)
    return int(low > 0) - int(high < 0)


def _standing(name: str, ahead: Mapping[str, Any]) -> str:
    side, ends = place(ahead), ahead["interval"]
    if ends is None:
        return f"{ahead['difference']:+.4f} to {name}, without an interval"
    if not side:
        return f"level with {name} ({ends[0]:+.4f} to {ends[1]:+.4f})"
    low, high = sorted(abs(end) for end in ends)
    word = "ahead of" if side > 0 else "behind"
    return f"{word} {name} by {abs(ahead['difference']):.4f} ({low:.4f} to {high:.4f})"
