"""Counts the values of a split, with its progress on the console."""

from __future__ import annotations

from rich.console import Console

from pipelines.common.progress import Progress
from pipelines.distributions.reference import of_split
from pipelines.distributions.statistics import Statistics
from pipelines.features import FittedFeatures
from pipelines.storage.dataset import DataSplit


def count_split(
    split: DataSplit, fitted: FittedFeatures, request: str | None, console: Console
) -> Statistics:
    """The statistics of all rows of a split.

    Args:
        split: The rows.
        fitted: The transforms whose bins are counted.
        request: Column of the request id; None: every row counts.
        console: Shows the rows done.
    """
    progress = Progress(console)
    try:
        advance = progress.start(f"counting {split.name}", split.rows)
        return of_split(split, fitted, request, advance)
    finally:
        progress.stop()
