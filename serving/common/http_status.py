"""Status codes of gRPC as those of HTTP."""

from __future__ import annotations

from serving.common.errors import ServingError

HTTP_STATUS = {
    "INVALID_ARGUMENT": 400, "FAILED_PRECONDITION": 400, "OUT_OF_RANGE": 400,
    "UNAUTHENTICATED": 401, "PERMISSION_DENIED": 403, "NOT_FOUND": 404, "ABORTED": 409,
    "ALREADY_EXISTS": 409, "RESOURCE_EXHAUSTED": 429, "CANCELLED": 499, "UNKNOWN": 500,
    "INTERNAL": 500, "DATA_LOSS": 500, "UNIMPLEMENTED": 501, "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}  # fmt: skip


def http_status(error: ServingError | None) -> int:
    """Returns the status of an answer, or of the error in its place."""
    return 200 if error is None else HTTP_STATUS.get(error.code.name, 500)
