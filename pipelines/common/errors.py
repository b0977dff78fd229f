"""The errors that a user can fix."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from serving.state.errors import DataError, did_you_mean


class PipelineError(DataError):
    """An error that a user can fix: one sentence, shown without a stack trace."""


class GateError(PipelineError):
    """The error for a model that failed a gate of its experiment."""

    exit_status = 4  # 2 is a wrong command line, 3 a shift that `skew` found


def sentence(reason: object) -> str:
    """Returns a reason with a mark at its end, as the errors of some libraries have none."""
    text = str(reason)
    return text if text.endswith((".", "?")) else f"{text}."


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
