"""Reads text protos from files."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from google.protobuf import text_format

from serving.common.errors import InvalidArgument, NotFound

# Comments are matched too, so that a quote in one does not start a string.
_STRING_OR_COMMENT = re.compile(
    r"""#[^\n]*|"[^"\\]*+(?:\\.[^"\\]*+)*+"|'[^'\\]*+(?:\\.[^'\\]*+)*+'"""
)


def read_content(path: str | os.PathLike[str]) -> bytes:
    """Reads a file.

    Raises:
        NotFound: The file cannot be read; the message says why.
    """
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise NotFound(f"Cannot read {path}: {error.strerror}.") from error


def parse_text(kind: Any, content: bytes, source: str, *, is_secret: bool = False) -> Any:
    """Parses a text proto. As in TensorFlow Serving, strings may span several lines.

    Args:
        kind: Class of the message.
        content: The text.
        source: Name of the file; errors start with it.
        is_secret: Whether errors show the position only, and nothing of the text.

    Raises:
        InvalidArgument: The text is no such message; the error names the line and column.
    """
    problem = f"{source} is not a {kind.DESCRIPTOR.name} as text"
    try:
        return text_format.Parse(_STRING_OR_COMMENT.sub(_in_one_line, content.decode()), kind())
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"{problem}: byte {error.start} is not UTF-8.") from None
    except text_format.ParseError as error:
        if is_secret:
            place = f"line {error.GetLine()}, column {error.GetColumn()}"
            raise InvalidArgument(f"{problem}: {place} (not shown: it may be a key).") from None
        raise InvalidArgument(f"{problem}: {error}") from error


def _in_one_line(match: re.Match[str]) -> str:
    """Escapes the line breaks of a string, and appends as many, so that line numbers stay right."""
    if match[0].startswith("#"):
        return match[0]
    text = match[0].replace("\r\n", "\n")
    return text.replace("\n", r"\n") + "\n" * text.count("\n")
