"""Decides on a canary, once, by the rows that it and the stable version have served."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from pipelines.experiment.config import Experiment
from pipelines.online.canary import CanaryRows, VersionComparison
from pipelines.refresh.history import Decision, What
from pipelines.report.gate_words import FAILED, UNDECIDED


class Verdict(NamedTuple):
    """The decision on a canary, and its reasons.

    Attributes:
        what: The decision; None: it waits.
        why: The numbers that decided, or for what it waits.
    """

    what: What | None
    why: tuple[str, ...]


def decide(rows: Path, experiment: Experiment, stable: int, canary: Decision) -> Verdict:
    """Promotes a canary, rolls it back, or waits for more rows.

    Args:
        rows: Folder of the served rows with their outcomes, as `join` writes it.
        experiment: The experiment of the run; `[refresh]` has the limits.
        stable: The stable version.
        canary: The publication of the canary.
    """
    options = experiment.refresh
    if not options.rows:
        return Verdict("promoted", ("`refresh.rows` is 0",))
    since = datetime.fromisoformat(canary.time)
    served = CanaryRows(rows, experiment, stable, canary.version, since)
    labelled = served.labelled()
    if labelled < options.rows:
        return Verdict(None, (f"it waits for {options.rows:,} rows and has {labelled:,}",))
    comparison = served.compared(options.max_degraded, options.max_lag)
    tasks = {task.name for task in experiment.tasks}
    metrics = [gate for gate in comparison.gates if gate.of in tasks]
    words = tuple(gate.words for gate in metrics)
    if all(gate.result == UNDECIDED for gate in metrics):
        return Verdict(None, (f"{_counts(comparison)} are too few to compare", *words))
    failed = tuple(gate.words for gate in comparison.gates if gate.result == FAILED)
    return (
        Verdict("rolled back", failed)
        if failed
        else Verdict("promoted", (_counts(comparison), *words))
    )


def _counts(comparison: VersionComparison) -> str:
    return f"{comparison.canary_rows:,} rows against {comparison.stable_rows:,}"
