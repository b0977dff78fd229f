"""Text protos in files, read with one clear error for each thing that is wrong."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from google.protobuf import text_format

from serving.common.errors import InvalidArgument, NotFound

# Comments beside strings: a quote in one begins none.
_STRING_OR_COMMENT = re.compile(
    r"""#[^\n]*|"[^"\\]*+(?:\\.[^"\\]*+)*+"|'[^'\\]*+(?:\\.[^'\\]*+)*+'"""
)


def read_content(path: str | os.PathLike[str]) -> bytes:
    """What a file holds.

    Raises:
        NotFound: It cannot be read; the message says why.
    """
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise NotFound(f"Cannot read {path}: {error.strerror}.") from error


def parse_text(kind: Any, content: bytes, source: str, *, is_secret: bool = False) -> Any:
    """The message of a text proto; as in TensorFlow Serving, strings may go over several lines.

    Args:
        kind: Class of the message.
        content: The text.
        source: Where it is from; errors begin with it.
        is_secret: Whether errors say nothing of the text but the place.

    Raises:
        InvalidArgument: It is no such proto; the message says in which line and column.
    """
    problem = f"{source} is not a {kind.DESCRIPTOR.name} as text"
    try:
        return text_format.Parse(_STRING_OR_COMMENT.sub(_in_one_line, content.decode()), kind())
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"{problem}: byte {error.start} is no UTF-8.") from None
    except text_format.ParseError as error:
        if is_secret:
            place = f"line {error.GetLine()}, column {error.GetColumn()}"
            raise InvalidArgument(f"{problem}: {place} (not shown: it may be a key).") from None
        raise InvalidArgument(f"{problem}: {error}") from error


def _in_one_line(found: re.Match[str]) -> str:
    """A string whose line breaks are escaped; as many follow it, so that errors know their line."""
    if found[0].startswith("#"):
        return found[0]
    text = found[0].replace("\r\n", "\n")
    return text.replace("\n", r"\n") + "\n" * text.count("\n")
