"""The log of a server process: one line for each event; received text cannot start a line."""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
from types import TracebackType

FORMATS = ("text", "json")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")
_LOGGER = logging.getLogger(__name__)


class OneLine(logging.Formatter):
    """A formatter that escapes control characters and indents the lines of tracebacks."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return _CONTROL.sub(_escaped, super().formatMessage(record))

    def format(self, record: logging.LogRecord) -> str:
        lines = super().format(record).split("\n")
        return "\n  ".join(_CONTROL.sub(_escaped, line) for line in lines)


class JsonLines(logging.Formatter):
    """A formatter whose records are lines of JSON, with the common keys of the access log."""

    def format(self, record: logging.LogRecord) -> str:
        line = common_keys(record.created, record.name, record.levelname)
        line["message"] = record.getMessage()
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)


def common_keys(time: float, logger: str, level: str) -> dict[str, object]:
    """Returns the first keys of a line of JSON; the time is in seconds since 1970."""
    return {"time": round(time, 3), "level": level, "logger": logger}


def set_up(log_format: str) -> None:
    """Logs to standard error: `serving` from INFO on, other packages from WARNING on.

    Args:
        log_format: `text` or `json`. In JSON, warnings of Python and uncaught exceptions are lines
            too.
    """
    handler = logging.StreamHandler()
    if log_format == "json":
        handler.setFormatter(JsonLines())
        logging.captureWarnings(True)
        sys.excepthook = _log_uncaught
        threading.excepthook = _log_uncaught_in_thread
        sys.unraisablehook = lambda args: _log_uncaught(
            args.exc_type, args.exc_value, args.exc_traceback
        )
    else:
        handler.setFormatter(OneLine("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(handlers=[handler])
    logging.getLogger("serving").setLevel(logging.INFO)


def _log_uncaught(
    kind: type[BaseException], error: BaseException | None, traceback: TracebackType | None
) -> None:
    error = kind() if error is None else error
    _LOGGER.critical("Uncaught %s", kind.__name__, exc_info=(kind, error, traceback))


def _log_uncaught_in_thread(args: threading.ExceptHookArgs) -> None:
    if args.exc_type is not SystemExit:  # which ends a thread without a word
        _log_uncaught(args.exc_type, args.exc_value, args.exc_traceback)


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()
