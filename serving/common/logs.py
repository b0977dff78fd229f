"""The log of a server process, in which no received text can begin a line."""

from __future__ import annotations

import logging
import re

_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")


class OneLine(logging.Formatter):
    """A formatter that escapes control characters and indents the lines of tracebacks."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return _CONTROL.sub(_escaped, super().formatMessage(record))

    def format(self, record: logging.LogRecord) -> str:
        lines = super().format(record).split("\n")
        return "\n  ".join(_CONTROL.sub(_escaped, line) for line in lines)


def set_up(log_format: str) -> None:
    """Logs to standard error: `serving` from INFO on, other packages from WARNING on."""
    handler = logging.StreamHandler()
    handler.setFormatter(OneLine(log_format))
    logging.basicConfig(handlers=[handler])
    logging.getLogger("serving").setLevel(logging.INFO)


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()
