"""Progress on the console: a bar with rows per second, and a line at the end."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich import progress
from rich.console import Console
from rich.markup import escape

_QUIET = 60.0  # seconds between lines without a terminal


class Progress:
    """Shows one bar at a time; without a terminal, prints one line per minute."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._bar: progress.Progress | None = None

    def start(self, label: str, total: int | None) -> Callable[[int], None]:
        """Shows a bar; returns a function to call with the rows done since its last call."""
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
        begin = printed = time.monotonic()
        done = 0

        def advance(rows: int) -> None:
            nonlocal done, printed
            done += rows
            now = time.monotonic()
            if now - printed >= _QUIET:
                printed = now
                share = f"{done:,} rows" if total is None else f"{done / max(total, 1):.0%}"
                self.finish(f"{label}  {share}  {done / (now - begin):,.0f} rows/s")

        return advance

    def finish(self, line: str) -> None:
        """Replaces the bar by a line."""
        self.stop()
        self.console.print(f"  {escape(line)}", highlight=False, soft_wrap=True)

    def stop(self) -> None:
        """Removes the bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


class _RowsPerSecond(progress.ProgressColumn):
    def render(self, task: progress.Task) -> str:
        speed = task.finished_speed or task.speed
        done = f"{task.completed:,.0f} rows  " if task.total is None else ""
        return "" if speed is None else f"{done}{speed:,.0f} rows/s"
