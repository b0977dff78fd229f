"""An evaluation on the console."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape

from pipelines.report.against import verdicts
from pipelines.report.attention_words import print_attention
from pipelines.report.gate_words import print_gates
from pipelines.report.metric_tables import print_metrics
from pipelines.report.segment_tables import print_segments
from pipelines.report.slice_tables import print_slices


def print_evaluation(
    console: Console, metrics: Mapping[str, Any], against: Mapping[str, Any] | None = None
) -> None:
    """Prints the metrics of each task, its worst segments and slices, warnings, gates and
    verdicts.

    Args:
        console: The console.
        metrics: The content of an evaluation's metrics.json.
        against: What `compared` returns.
    """
    print_metrics(console, metrics)
    print_segments(console, metrics)
    print_slices(console, metrics)
    print_attention(console, metrics)
    print_gates(console, metrics)
    for verdict in verdicts(against) if against else ():
        console.print(escape(verdict))
