"""A line of JSON for each request."""

from __future__ import annotations

import json
import logging
import sys

from serving.common.call import Call
from serving.common.errors import truncated

_LOGGER = logging.getLogger("serving.access")


def log_to_standard_error() -> None:
    """Writes the lines as they are, apart from the server's other words."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    _LOGGER.addHandler(handler)
    _LOGGER.setLevel(logging.INFO)
    _LOGGER.propagate = False


def log_access(call: Call) -> None:
    """Logs a call; an observer of `Inference`."""
    line = {
        "time": round(call.at, 3),
        "request_id": call.request_id,
        "entrypoint": call.entrypoint,
        "api": call.api,
        "model": call.model,
        "version": call.version,
        "signature": call.signature,
        "code": "OK" if call.error is None else call.error.code.name,
        "milliseconds": round(1e3 * call.seconds, 3),
        "queue_milliseconds": round(1e3 * call.queue_seconds, 3),
        "runtime_milliseconds": round(1e3 * call.runtime_seconds, 3),
        "rows": call.rows,
        "candidates": call.candidates,
        "batch_rows": call.batch_rows,
    }
    if call.error is not None:
        line["error"] = truncated(str(call.error))
    _LOGGER.info("%s", json.dumps(line))
