"""The exception for user errors, and suggestions for misspelt names."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence


class PipelineError(Exception):
    """An error that a user can fix: one sentence, shown without a stack trace."""

    exit_status = 1


class GateError(PipelineError):
    """The error for a model that failed a gate of its experiment."""

    exit_status = 4  # 2 is a wrong command line, 3 a shift that `skew` found


def sentence(reason: object) -> str:
    """Returns a reason with a mark at its end, as the errors of some libraries have none."""
    text = str(reason)
    return text if text.endswith((".", "?")) else f"{text}."


def did_you_mean(name: str, known: Iterable[str], show: Callable[[str], str] = repr) -> str:
    """Returns ` Did you mean 'price'?`, or an empty text without a similar name."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f" Did you mean {show(near[0])}?" if near else ""


def check_known(key: str, names: Iterable[str], known: Sequence[str]) -> None:
    """Checks that the names that a key gives are known.

    Raises:
        ValueError: A name is unknown; the message has the most similar name.
    """
    for name in names:
        if name not in known:
            raise ValueError(
                f"`{key}` names {name!r}; expected one of {', '.join(map(repr, known))}."
                f"{did_you_mean(name, known)}"
            )
