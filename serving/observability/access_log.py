"""The access log: a line of JSON for each request."""

from __future__ import annotations

import json
import logging
import queue
import sys
from logging.handlers import QueueHandler, QueueListener

from serving.common.errors import truncated
from serving.common.logs import common_keys
from serving.common.request_trace import RequestTrace

_LOGGER = logging.getLogger("serving.access")
_MOST_LINES = 10_000  # that standard error has not taken; further ones are lost


class _Lines(QueueHandler):
    """Passes lines to a thread, so that no request waits for standard error."""

    queue: queue.SimpleQueue[logging.LogRecord]

    def enqueue(self, record: logging.LogRecord) -> None:
        if self.queue.qsize() < _MOST_LINES:
            self.queue.put_nowait(record)


def log_to_standard_error() -> QueueListener:
    """Sends the lines to standard error without the format of the other logs.

    Returns:
        The thread that writes them, which `stop` ends.
    """
    lines = _Lines(queue.SimpleQueue())
    _LOGGER.addHandler(lines)
    _LOGGER.setLevel(logging.INFO)
    _LOGGER.propagate = False
    writer = QueueListener(lines.queue, logging.StreamHandler(sys.stderr))
    writer.start()
    return writer


def log_access(trace: RequestTrace) -> None:
    """Logs a request."""
    line = common_keys(trace.at, _LOGGER.name, "INFO") | {
        "request_id": trace.context.request_id,
        "trace_id": trace.outgoing.trace_id,
        "entrypoint": trace.context.entrypoint,
        "api": trace.context.api,
        "model": trace.model,
        "version": trace.version,
        "signature": trace.signature,
        "code": "OK" if trace.error is None else trace.error.code.name,
        "milliseconds": round(1e3 * trace.seconds, 3),
        "queue_milliseconds": round(1e3 * trace.queue_seconds, 3),
        "runtime_milliseconds": round(1e3 * trace.runtime_seconds, 3),
        "rows": trace.rows,
        "candidates": trace.candidates,
        "batch_rows": trace.batch_rows,
    }
    if trace.error is not None:
        line["error"] = truncated(str(trace.error))
    _LOGGER.info("%s", json.dumps(line))
