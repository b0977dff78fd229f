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
├── ResourceExhausted
├── Unauthenticated          no valid token
├── PermissionDenied         a reload without permission, or of a folder that is not allowed
├── Unimplemented
├── DataLoss                 a file cannot be read
└── Internal                 a fault of the server

The server raises them, gRPC transports code and message, the client raises them again.
"""

from __future__ import annotations

from collections.abc import Iterable

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


_CODES = {code.value[0]: code for code in grpc.StatusCode}
_CLASSES: dict[grpc.StatusCode, type[ServingError]] = {
    error.code: error for error in ServingError.__subclasses__()
}


def from_code(code: int, message: str) -> ServingError:
    """Returns the error of a status code; gRPC and TensorFlow use the same numbers."""
    status = _CODES.get(code, grpc.StatusCode.UNKNOWN)
    return _CLASSES.get(status, ServingError)(message, status)


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


def too_many(limit: int, retry_after: float) -> ServingError:
    error = ResourceExhausted(f"{limit} requests are being answered already. Send fewer at a time.")
    error.retry_after = retry_after
    return error


def too_late(expected: float, allowed: float) -> ServingError:
    error = ResourceExhausted(
        f"The server is busy: an answer would take about {expected:.3f} s. The most that its "
        f"deadline and priority allow is {allowed:.3f} s. Retry elsewhere, or later."
    )
    error.retry_after = expected
    return error


def missing_model_spec() -> ServingError:
    return InvalidArgument("Missing ModelSpec")


def unnamed_model() -> ServingError:
    return InvalidArgument("ModelSpec has no name specified.")


def servable_not_found(name: str, version: int | None) -> ServingError:
    wanted = f"Latest({name})" if version is None else f"Specific({name}, {version})"
    return NotFound(f"Servable not found for request: {wanted}")


def still_loading(name: str, versions: Iterable[int]) -> ServingError:
    numbers = ", ".join(map(str, versions))
    which = f" version {numbers}" if numbers else ""
    return Unavailable(
        f"Model {name!r} is still loading{which}. Try again, or wait until its health is SERVING."
    )


def unrecognized_label(label: str) -> ServingError:
    return InvalidArgument(f"Unrecognized servable version label: {label}")


def signature_not_found(key: str) -> ServingError:
    return FailedPrecondition(f'Serving signature key "{key}" not found.')


def wrong_inputs(
    received: Iterable[str], expected: Iterable[str], required: Iterable[str]
) -> ServingError:
    sent, known = set(received), set(expected)
    return InvalidArgument(
        f"input size does not match signature: {len(sent)}!={len(known)} "
        f"len({_names(sent)}) != len({_names(known)}). Sent extra: {_names(sent - known)}. "
        f"Missing but required: {_names(set(required) - sent)}."
    )


def unknown_output(alias: str, outputs: Iterable[str]) -> ServingError:
    return InvalidArgument(
        f"output tensor alias not found in signature: {alias} "
        f"Outputs expected to be in the set {_names(outputs)}."
    )


def duplicate_output(alias: str) -> ServingError:
    return InvalidArgument(f"duplicate output tensor alias: {alias}")


def unparsable_tensor(name: str, why: str) -> ServingError:
    return InvalidArgument(f"tensor parsing error: {name}: {why}")


def missing_metadata_field() -> ServingError:
    return InvalidArgument("GetModelMetadataRequest must specify at least one metadata_field")


def unsupported_metadata_field(field: str) -> ServingError:
    return InvalidArgument(f"Metadata field {field} is not supported")


def status_not_found(name: str, version: int | None) -> ServingError:
    if version is None:
        return NotFound(f"Could not find any versions of model {name}")
    return NotFound(f"Could not find version {version} of model {name}")


def empty_input() -> ServingError:
    return InvalidArgument("Input is empty.")


def no_signature(key: str) -> ServingError:
    """The error of Classify, Regress and MultiInference; Predict has `signature_not_found`."""
    return InvalidArgument(f"No signature was found with the name: {key}")


def wrong_method(kind: str, expected: str, received: str) -> ServingError:
    return InvalidArgument(
        f"Expected {kind} signature method_name to be {expected}. Was: {received}"
    )


def unsupported_method(name: str) -> ServingError:
    return Unimplemented(f"Unsupported signature method_name: {name}")


def empty_model_name() -> ServingError:
    return InvalidArgument("Found ModelSpec with an empty model name.")


def different_models() -> ServingError:
    return InvalidArgument(
        "All ModelSpecs in a MultiInferenceRequest must access the same model name."
    )


def duplicate_signature(key: str) -> ServingError:
    return InvalidArgument(f"Duplicate evaluation of signature: {key}")


def no_inputs(kind: str, definition: object) -> ServingError:
    return FailedPrecondition(f"No {kind} inputs found in SignatureDef: {definition}")


def no_classes(definition: object) -> ServingError:
    return FailedPrecondition(
        'Expected classification signature outputs to contain at least one of "classes" or '
        f'"scores". Signature was: {definition}'
    )


def no_regression_outputs(definition: object) -> ServingError:
    return FailedPrecondition(f"No regression outputs found in SignatureDef: {definition}")


def wrong_class_shape(shape: tuple[int, ...]) -> ServingError:
    return InvalidArgument(
        f"Expected Tensor shape: [batch_size num_classes] but got {_shape(shape)}"
    )


def wrong_class_count(name: str, expected: int, received: int) -> ServingError:
    return InvalidArgument(f"Expected {name} output batch size of {expected}. Got: {received}")


def different_classes(classes: int, scores: int) -> ServingError:
    return InvalidArgument(
        f"Tensors class and score should match in dim_size(1). Got {classes} vs. {scores}"
    )


def wrong_regression_shape(shape: tuple[int, ...]) -> ServingError:
    return InvalidArgument(
        "Expected output Tensor shape to be either [batch_size] or [batch_size, 1] but got "
        f"{_shape(shape)}"
    )


def wrong_regression_size(expected: int, received: int) -> ServingError:
    return InvalidArgument(
        f"Input batch size did not match output batch size: {expected} vs. {received}"
    )


def wrong_output_dtype(name: str, expected: str, received: object) -> ServingError:
    return InvalidArgument(f"Expected {name} Tensor of {expected}. Got: {received}")


def _shape(shape: tuple[int, ...]) -> str:
    return "[" + ",".join(str(dim) for dim in shape) + "]"


def _names(names: Iterable[str]) -> str:
    return "{" + ",".join(sorted(names)) + "}"
