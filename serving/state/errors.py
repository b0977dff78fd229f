"""The error for data that a user can correct, and suggestions for misspelt names."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable


class DataError(Exception):
    """The error for a definition, a column or a value that is not as expected: one sentence."""

    exit_status = 1


def did_you_mean(name: str, known: Iterable[str], show: Callable[[str], str] = repr) -> str:
    """Returns ` Did you mean 'price'?`, or an empty text without a similar name."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f" Did you mean {show(near[0])}?" if near else ""


def require_column(names: Iterable[str], name: str, role: str, where: str) -> None:
    """Raises the error for a missing column, with the most similar name."""
    names = list(names)
    if name in names:
        return
    raise DataError(
        f"{where}: the column {name!r} ({role}) is missing.{did_you_mean(name, names)} "
        f"Columns: {', '.join(names)}."
    )
