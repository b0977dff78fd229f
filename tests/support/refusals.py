"""Tests that wrong arguments give an error with one clear sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Attempt = Callable[[], Any]


def refusals(
    *cases: tuple[Attempt, str], error: type[Exception] = ValueError
) -> Callable[[Attempt, str], None]:
    """A parametrised test that each attempt raises `error` with a matching message.

    Example:
        test_wrong_arguments = refusals((lambda: Dot(scale=3), "`scale` must be True or False"))
    """

    @pytest.mark.parametrize(("attempt", "message"), cases)
    def test(attempt: Attempt, message: str) -> None:
        with pytest.raises(error, match=message):
            attempt()

    return test
