"""The errors of the service, with TensorFlow Serving's status codes and messages.

ServingError                 carries its gRPC status code
├── InvalidArgument          the request must change
│   └── InvalidFeature       found by the client, before anything is sent
├── NotFound                 no such model or version
│   └── VersionGone          the backend has removed the version
├── FailedPrecondition       the model has no such signature
├── DeadlineExceeded
├── Cancelled
├── Unavailable              no server answers, or not yet
│   └── StateNotReady        the store does not have the state of a version
├── ResourceExhausted
├── Unauthenticated          no valid token
├── PermissionDenied         a reload without permission, or of a folder that is not allowed
├── Unimplemented
├── DataLoss                 a file cannot be read
└── Internal                 a fault of the server

The server raises them, gRPC transports code and message, the client raises them again.
"""

from __future__ import annotations

import grpc

MESSAGE_LIMIT = 1024


class ServingError(Exception):
    """A failed request: a gRPC status code and a message of one sentence.

    Attributes:
        code: The status code.
        request_id: Id of the request in the servers' logs; None if no request was sent.
        retry_after: Seconds after which a busy server has worked off what waits now; None if it
            is not busy.

    Example:
        >>> error = NotFound("Servable not found for request: Latest(ctr)")
        >>> isinstance(error, ServingError), error.code.name
        (True, 'NOT_FOUND')
    """

    code: grpc.StatusCode = grpc.StatusCode.UNKNOWN
    request_id: str | None = None
    retry_after: float | None = None

    def __init__(self, message: str, code: grpc.StatusCode | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code


class InvalidArgument(ServingError):
    code = grpc.StatusCode.INVALID_ARGUMENT


class InvalidFeature(InvalidArgument):
    """A raw value that does not fit the model's signature."""


class NotFound(ServingError):
    code = grpc.StatusCode.NOT_FOUND


class VersionGone(NotFound):
    """The runtime of a loaded version no longer has it, so another version may answer."""


class FailedPrecondition(ServingError):
    code = grpc.StatusCode.FAILED_PRECONDITION


class DeadlineExceeded(ServingError):
    code = grpc.StatusCode.DEADLINE_EXCEEDED


class Cancelled(ServingError):
    code = grpc.StatusCode.CANCELLED


class Unavailable(ServingError):
    code = grpc.StatusCode.UNAVAILABLE


class StateNotReady(Unavailable):
    """The store does not have the state of a version yet: it is awaited, however long."""


class ResourceExhausted(ServingError):
    code = grpc.StatusCode.RESOURCE_EXHAUSTED


class Unauthenticated(ServingError):
    code = grpc.StatusCode.UNAUTHENTICATED


class PermissionDenied(ServingError):
    code = grpc.StatusCode.PERMISSION_DENIED


class Unimplemented(ServingError):
    code = grpc.StatusCode.UNIMPLEMENTED


class DataLoss(ServingError):
    code = grpc.StatusCode.DATA_LOSS


class Internal(ServingError):
    code = grpc.StatusCode.INTERNAL


HTTP_STATUS = {
    "INVALID_ARGUMENT": 400, "FAILED_PRECONDITION": 400, "OUT_OF_RANGE": 400,
    "UNAUTHENTICATED": 401, "PERMISSION_DENIED": 403, "NOT_FOUND": 404, "ABORTED": 409,
    "ALREADY_EXISTS": 409, "RESOURCE_EXHAUSTED": 429, "CANCELLED": 499, "UNKNOWN": 500,
    "INTERNAL": 500, "DATA_LOSS": 500, "UNIMPLEMENTED": 501, "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}  # fmt: skip
_CODES = {code.value[0]: code for code in grpc.StatusCode}
_CLASSES: dict[grpc.StatusCode, type[ServingError]] = {
    error.code: error for error in ServingError.__subclasses__()
}


def from_code(code: int, message: str) -> ServingError:
    """Returns the error of a status code; gRPC and TensorFlow use the same numbers."""
    status = _CODES.get(code, grpc.StatusCode.UNKNOWN)
    return _CLASSES.get(status, ServingError)(message, status)


def http_status(error: ServingError | None) -> int:
    """Returns the HTTP status of an answer, or of the error in its place."""
    return 200 if error is None else HTTP_STATUS.get(error.code.name, 500)


def truncated(message: str) -> str:
    """Returns the message as it is sent: at most 1024 characters of it."""
    if len(message) <= MESSAGE_LIMIT:
        return message
    return message[:MESSAGE_LIMIT] + "...TRUNCATED"


def shutting_down() -> ServingError:
    return Unavailable("The server is shutting down.")


def still_starting() -> ServingError:
    return Unavailable(
        "The server is still starting. Try again, or wait until its health is SERVING."
    )


def servable_not_found(name: str, version: int | None) -> ServingError:
    wanted = f"Latest({name})" if version is None else f"Specific({name}, {version})"
    return NotFound(f"Servable not found for request: {wanted}")


def unrecognized_label(label: str) -> ServingError:
    return InvalidArgument(f"Unrecognized servable version label: {label}")


def signature_not_found(key: str) -> ServingError:
    return FailedPrecondition(f'Serving signature key "{key}" not found.')
