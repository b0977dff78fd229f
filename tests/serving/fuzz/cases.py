"""One request of the fuzzer: what is sent, how, and which answers are proper."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from enum import StrEnum

SHOWN = 3000  # characters of a request in a report; its number brings back all of it


class Way(StrEnum):
    """How a request travels."""

    GRPC = "gRPC"
    HTTP = "HTTP"
    TO_GRPC = "bytes to gRPC's port"
    TO_HTTP = "bytes to REST's port"


@dataclass(frozen=True)
class Case:
    """A malformed request.

    Args:
        kind: What was done to it.
        way: How it travels.
        payload: The message, or all the bytes of the connection.
        method: Of gRPC.
        metadata: Of gRPC.
        timeout: Seconds that the caller waits.
        lingers: Whether the connection then stays open, as those of callers that stall do.
        number: Of the request among those of its seed.
    """

    kind: str
    way: Way
    payload: bytes
    method: str = ""
    metadata: tuple[tuple[str, str], ...] = ()
    timeout: float = 60.0
    lingers: bool = False
    number: int = -1

    def __str__(self) -> str:
        shown = base64.b64encode(self.payload).decode()
        if len(shown) > SHOWN:
            shown = f"{shown[:SHOWN]}... ({len(self.payload)} bytes)"
        more = f" {dict(self.metadata)}" if self.metadata else ""
        return f"number {self.number}, {self.kind}, {self.way} {self.method}{more} {shown}"


@dataclass(frozen=True)
class Outcome:
    """What became of a request.

    Args:
        case: The request.
        code: Its code: gRPC's, or HTTP's, or what else happened to the connection.
        details: The words beside it.
    """

    case: Case
    code: str
    details: str = ""
