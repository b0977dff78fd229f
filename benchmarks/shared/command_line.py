"""Options of the benchmarks that have several values."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection
from typing import Any


def several(
    parser: argparse.ArgumentParser,
    name: str,
    default: str,
    kind: Callable[[str], Any],
    text: str,
) -> None:
    """An option whose values are separated by commas; the help says its default."""
    parser.add_argument(
        name,
        type=lambda value: [kind(part) for part in value.split(",") if part],
        default=default,
        help=f"{text} ({default})",
    )


def one_of(known: Collection[str]) -> Callable[[str], str]:
    """The kind of a value that has one of these names."""

    def check(word: str) -> str:
        if word not in known:
            raise argparse.ArgumentTypeError(f"{word!r} is none of {', '.join(known)}")
        return word

    return check


def is_yes(word: str) -> bool:
    """The kind of a value that is `yes` or `no`."""
    return word == "yes"
