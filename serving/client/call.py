"""One request to one method, and what all calls of one use of the client share."""

from __future__ import annotations

import time
import uuid
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, TypedDict, TypeVar

from serving.client.options import check_metadata, check_positive
from serving.common.errors import InvalidArgument
from serving.common.headers import is_header

Answer = TypeVar("Answer")

# 31 years: gRPC counts nanoseconds, and where they overflow a deadline has passed at once.
_LONGEST_SECONDS = 1e9


class CallOptions(TypedDict, total=False):
    """What every method takes besides its own arguments.

    `timeout` in seconds (None waits for ever), `request_id` for the servers' logs (made up where
    none is given) and `metadata`, headers besides the client's.
    """

    timeout: float | None
    request_id: str
    metadata: Mapping[str, str | bytes]


@dataclass(frozen=True)
class Invocation:
    """One use of a client's method: a deadline, a request id and headers for all its calls."""

    timeout: float | None
    deadline: float | None  # on the clock of time.monotonic
    request_id: str
    headers: tuple[tuple[str, str | bytes], ...]

    @classmethod
    def begin(
        cls,
        options: CallOptions,
        timeout: float | None,
        metadata: Mapping[str, str | bytes],
    ) -> Invocation:
        """Starts the clock; `timeout` and `metadata` are the client's."""
        for name in options.keys() - CallOptions.__annotations__.keys():
            raise TypeError(
                f"Unexpected argument {name!r}. Besides its own, every method takes "
                f"{', '.join(CallOptions.__annotations__)}."
            )
        timeout = options.get("timeout", timeout)
        if timeout is not None:
            check_positive("timeout", timeout)
            timeout = min(timeout, _LONGEST_SECONDS)
        request_id = options.get("request_id") or uuid.uuid4().hex
        if not is_header(request_id):
            raise InvalidArgument(f"`request_id` must be printable ASCII. Received: {request_id!r}")
        check_metadata(options.get("metadata", {}))
        headers = {"x-request-id": request_id, **metadata, **options.get("metadata", {})}
        deadline = None if timeout is None else time.monotonic() + timeout
        return cls(timeout, deadline, request_id, tuple(headers.items()))

    def remaining(self) -> float | None:
        """Seconds that are left; none is left of what is negative."""
        return None if self.deadline is None else self.deadline - time.monotonic()


@dataclass(frozen=True)
class Call:
    """A request to the method of that name, which no two services share."""

    method: str
    request: Any
    invocation: Invocation


# A method of the client without its I/O: it yields calls, is sent their responses (or thrown
# their errors), and returns its answer.
Calls = Generator[Call, Any, Answer]
