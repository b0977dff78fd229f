"""Checks the names of features and tasks, which become names in the export's signatures."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable


def check_feature_names(names: Iterable[str], what: str = "feature") -> None:
    """Checks names that TensorFlow would refuse or silently rename as inputs.

    Args:
        names: The names of features, or of their columns.
        what: The word for them.

    Raises:
        ValueError: A name is no identifier, is reserved, or differs from another only in case.
    """
    seen: dict[str, str] = {}
    for name in names:
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
            raise ValueError(
                f"The {what} name {name!r} cannot name an input of the exported model: expected "
                "a letter of a-z or A-Z, then letters, digits and '_'. Rename the column in the "
                "data and the feature."
            )
        if keyword.iskeyword(name) or name == "self":
            raise ValueError(
                f"The {what} name {name!r} is reserved: it cannot name an input of the exported "
                "model. Rename the column in the data and the feature."
            )
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise ValueError(
                f"The {what} names {other!r} and {name!r} differ in the case of their letters "
                "only, which inputs of the exported model cannot. Rename one of them."
            )


def check_task_names(names: Iterable[str]) -> None:
    """Checks names that would collide with signatures or outputs of the export.

    Raises:
        ValueError: A name ends in a suffix that the export adds to task names.
    """
    added = ("with_context", ".classes", ".scores")
    for name in names:
        if name.endswith(added):
            raise ValueError(
                f"The task name {name!r} must not end in {', '.join(added)}: signatures and "
                "outputs of the exported model do. Rename the task and give it its column as "
                "`label`."
            )
