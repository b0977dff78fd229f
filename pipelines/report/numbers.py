"""Formats numbers for the console and the report."""

from __future__ import annotations

from collections.abc import Iterable

from rich.markup import escape
from rich.table import Table

ABSENT = "—"


def number_table(first: str, columns: Iterable[str], title: str = "", gap: int = 1) -> Table:
    """A table for the console, without lines: a column of texts, and columns of numbers.

    Args:
        first: The head of the column of texts.
        columns: The heads of the others.
        title: The line above.
        gap: Blanks between columns.
    """
    table = Table(
        title=escape(title) or None, title_justify="left", box=None, padding=(0, gap, 0, 0)
    )
    table.add_column(escape(first), overflow="fold")  # a path may be long
    for column in columns:
        table.add_column(escape(column), justify="right", no_wrap=True)
    return table


def decimal(value: float | None, places: int = 4) -> str:
    """A metric with a fixed number of places, a dash if it is undefined."""
    return ABSENT if value is None else f"{value:.{places}f}"


def count(value: int | None) -> str:
    """A count with thousands separators."""
    return ABSENT if value is None else f"{value:,}"


def percent(share: float | None) -> str:
    """A share in percent with four significant digits."""
    return ABSENT if share is None else f"{100 * share:.4g}%"


def below(best: float | None, reached: float | None) -> float | None:
    """The distance of `reached` below `best`, if both are known."""
    return None if best is None or reached is None else best - reached


def ratio(part: int, whole: int) -> float | None:
    """`part / whole`; None if `whole` is 0."""
    return part / whole if whole else None
