"""Progress for a person: a bar with rows per second while it runs, one line when it is done."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich import progress
from rich.console import Console
from rich.markup import escape

_QUIET = 60.0  # most seconds without a word where there is no terminal


class Progress:
    """One bar at a time; what is no terminal gets a line a minute in its place."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._bar: progress.Progress | None = None

    def start(self, label: str, total: int | None) -> Callable[[int], None]:
        """Shows a bar and returns what is to be called with the rows done since the last call."""
        self.stop()
        if not self.console.is_terminal:
            return self._lines(label, total)
        bar = progress.Progress(
            progress.TextColumn("  {task.description}"),
            progress.BarColumn(),
            progress.TaskProgressColumn(),
            _RowsPerSecond(),
            progress.TimeRemainingColumn(),
            console=self.console,
            transient=True,
        )
        task = bar.add_task(label, total=total)
        bar.start()
        self._bar = bar
        return lambda rows: bar.advance(task, rows)

    def _lines(self, label: str, total: int | None) -> Callable[[int], None]:
        begin = told = time.monotonic()
        done = 0

        def advance(rows: int) -> None:
            nonlocal done, told
            done += rows
            now = time.monotonic()
            if now - told >= _QUIET:
                told = now
                share = f"{done:,} rows" if total is None else f"{done / max(total, 1):.0%}"
                self.finish(f"{label}  {share}  {done / (now - begin):,.0f} rows/s")

        return advance

    def finish(self, line: str) -> None:
        """Takes the bar away and prints a line in its place."""
        self.stop()
        self.console.print(f"  {escape(line)}", highlight=False, soft_wrap=True)

    def stop(self) -> None:
        """Takes the bar away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


class _RowsPerSecond(progress.ProgressColumn):
    def render(self, task: progress.Task) -> str:
        speed = task.finished_speed or task.speed
        done = f"{task.completed:,.0f} rows  " if task.total is None else ""
        return "" if speed is None else f"{done}{speed:,.0f} rows/s"
