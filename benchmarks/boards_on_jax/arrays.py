"""The names of the arrays of a board's rows, and of an encoder that its models start from."""

from __future__ import annotations


def of_input(split: str, feature: str) -> str:
    """The name of a feature's ids or numbers."""
    return f"{split}/{feature}"


def of_label(split: str, task: str) -> str:
    """The name of a task's labels."""
    return f"{split}/label/{task}"


DRAWS = "train/draws"  # of train requests, from 0 to 1: a run with a share has those below it


def of_encoder(place: int) -> str:
    """The name of a weight of a trained sequence model, `(seeds, ...)`."""
    return f"encoder/{place}"


def of_rows(sequence: str, side: str) -> str:
    """The name of the table rows of a sequence's known values.

    Args:
        sequence: The sequence of the ranking model.
        side: `"new"`, rows of the ranking model's table, or `"old"`, of the sequence model's.
    """
    return f"encoder/{sequence}/{side}"
