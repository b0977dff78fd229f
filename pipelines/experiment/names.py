"""Names that features and tasks may have: those that an export's signatures can tell apart."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable


def check_feature_names(names: Iterable[str]) -> None:
    """Raises where the export would fail or, worse, rename an input.

    Raises:
        ValueError: A name is no plain identifier, is reserved, or differs from another in the
            case of its letters only.
    """
    seen: dict[str, str] = {}
    for name in names:
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
            raise ValueError(
                f"The feature name {name!r} cannot name an input of the exported model: expected "
                "a letter of a-z or A-Z, then letters, digits and '_'. Rename the column in the "
                "data and the feature."
            )
        if keyword.iskeyword(name) or name == "self":
            raise ValueError(
                f"The feature name {name!r} is reserved: it cannot name an input of the exported "
                "model. Rename the column in the data and the feature."
            )
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise ValueError(
                f"The feature names {other!r} and {name!r} differ in the case of their letters "
                "only, which inputs of the exported model cannot. Rename one of them."
            )


def check_task_names(names: Iterable[str]) -> None:
    """Raises where signatures or outputs of the export would have the name of another one.

    Raises:
        ValueError: A name ends in what the export adds to the names of tasks.
    """
    added = ("with_context", ".classes", ".scores")
    for name in names:
        if name.endswith(added):
            raise ValueError(
                f"The task name {name!r} must not end in {', '.join(added)}: signatures and "
                "outputs of the exported model do. Rename the task and give it its column as "
                "`label`."
            )
