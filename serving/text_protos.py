"""Text protos in files, read with one clear error for each thing that is wrong."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from google.protobuf import text_format

from serving.errors import InvalidArgument, NotFound


def read_content(path: str | os.PathLike[str]) -> bytes:
    """What a file holds.

    Raises:
        NotFound: It cannot be read; the message says why.
    """
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise NotFound(f"Cannot read {path}: {error.strerror}.") from error


def parse_text(kind: Any, content: bytes, source: str) -> Any:
    """The message of a text proto.

    Args:
        kind: Class of the message.
        content: The text.
        source: Where it is from; errors begin with it.

    Raises:
        InvalidArgument: It is no such proto; the message says in which line and column.
    """
    try:
        return text_format.Parse(content.decode(), kind())
    except (text_format.ParseError, UnicodeDecodeError) as error:
        name = kind.DESCRIPTOR.name
        raise InvalidArgument(f"{source} is not a {name} as text: {error}") from error
