"""An evaluation on the console."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape

from pipelines.report.advice import advice
from pipelines.report.against import verdicts
from pipelines.report.attention_words import print_attention
from pipelines.report.baseline_words import standings
from pipelines.report.gate_words import print_gates
from pipelines.report.metric_tables import print_metrics
from pipelines.report.segment_tables import print_segments
from pipelines.report.slice_tables import print_slices


def print_evaluation(
    console: Console, metrics: Mapping[str, Any], against: Mapping[str, Any] | None = None
) -> None:
    """Prints the metrics of each task, baselines, the worst segments and slices, warnings, advice,
    gates and verdicts.

    Args:
        console: The console.
        metrics: The content of an evaluation's metrics.json.
        against: What `compared` returns.
    """
    print_metrics(console, metrics)
    for line in standings(metrics):
        console.print(escape(line))
    print_segments(console, metrics)
    print_slices(console, metrics)
    print_attention(console, metrics)
    for sentence in advice(metrics):
        console.print(f"advice: {escape(sentence)}")
    print_gates(console, metrics)
    for verdict in verdicts(against) if against else ():
        console.print(escape(verdict))
