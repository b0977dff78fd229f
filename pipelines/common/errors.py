"""The one exception that a user of the pipelines sees, and its hint at a misspelt name."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable


class PipelineError(Exception):
    """Bad input or a step that cannot go on: one clear sentence, shown without a stack trace."""


def did_you_mean(name: str, known: Iterable[str], show: Callable[[str], str] = repr) -> str:
    """` Did you mean 'price'?`, or nothing where no known name is near."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f" Did you mean {show(near[0])}?" if near else ""
