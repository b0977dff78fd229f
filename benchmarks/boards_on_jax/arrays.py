"""The names of the arrays of a board's rows."""

from __future__ import annotations


def of_input(split: str, feature: str) -> str:
    """The name of a feature's ids or numbers."""
    return f"{split}/{feature}"


def of_label(split: str, task: str) -> str:
    """The name of a task's labels."""
    return f"{split}/label/{task}"
