"""The access log: a line of JSON for each request."""

from __future__ import annotations

import json
import logging
import sys

from serving.common.errors import truncated
from serving.common.logs import common_keys
from serving.common.request_trace import RequestTrace

_LOGGER = logging.getLogger("serving.access")


def log_to_standard_error() -> None:
    """Sends the lines to standard error without the format of the other logs."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    _LOGGER.addHandler(handler)
    _LOGGER.setLevel(logging.INFO)
    _LOGGER.propagate = False


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
