"""An evaluation on the console."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console

from pipelines.report.gates import print_gates
from pipelines.report.segments import print_segments
from pipelines.report.slices import print_slices
from pipelines.report.tables import print_metrics


def print_evaluation(console: Console, metrics: Mapping[str, Any]) -> None:
    """Prints the metrics of each task, its worst segments and slices, and the gates.

    Args:
        console: The console.
        metrics: The content of an evaluation's metrics.json.
    """
    print_metrics(console, metrics)
    print_segments(console, metrics)
    print_slices(console, metrics)
    print_gates(console, metrics)
