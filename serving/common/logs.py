"""The log of a server process: nothing that a caller sent begins a line of it."""

from __future__ import annotations

import logging
import re

_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")


class OneLine(logging.Formatter):
    """Escapes control characters; only tracebacks have further lines, which are indented."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return _CONTROL.sub(_escaped, super().formatMessage(record))

    def format(self, record: logging.LogRecord) -> str:
        lines = super().format(record).split("\n")
        return "\n  ".join(_CONTROL.sub(_escaped, line) for line in lines)


def set_up(log_format: str) -> None:
    """Logs to standard error; of `serving` what it has to say from INFO on."""
    handler = logging.StreamHandler()
    handler.setFormatter(OneLine(log_format))
    logging.basicConfig(handlers=[handler])
    logging.getLogger("serving").setLevel(logging.INFO)


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()
