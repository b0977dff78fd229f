"""Which answers are proper."""

from __future__ import annotations

import re

from tests.serving.fuzz.cases import Outcome, Way
from tests.serving.fuzz.generate import MAX_MESSAGE_BYTES
from tests.serving.fuzz.requests import RELOAD, parses

# What a caller may hear, whatever he sends; others only as `violation` says.
_CODES = {
    "OK", "INVALID_ARGUMENT", "NOT_FOUND", "FAILED_PRECONDITION", "OUT_OF_RANGE", "UNIMPLEMENTED",
    "RESOURCE_EXHAUSTED", "UNAUTHENTICATED",
}  # fmt: skip
_STATUSES = {"200", "400", "401", "404", "405", "413", "429", "501"}
_LEAKS = re.compile(r"Traceback|File \"|\.py\b|\w+Error: |NoneType|object has no attribute")
_UNREADABLE = "Exception deserializing request!"  # gRPC's own words
# What gRPC says of metadata that it does not take, and of messages that it cannot decompress.
_OF_GRPC = re.compile(
    f"{_UNREADABLE}|Error parsing '.*' metadata|Illegal header key|Metadata keys cannot be|"
    "Compression bit set but no encoding|Decompression failed|Failed parsing HTTP/2|"
    "Error in HPACK|Invalid HPACK|Bad method header|Missing :"
)
_NOT_READY = "\r\n\r\nnot ready\n"  # true while a reload has the spare model fail
_NOT_AVAILABLE = "model(s) did not become available"  # TensorFlow Serving's, and UNKNOWN there too


def violation(outcome: Outcome) -> str:
    """What is wrong with an answer; nothing where it is proper."""
    case = outcome.case
    if case.way == Way.GRPC:
        wrong = _wrong_call(outcome)
    elif case.way == Way.HTTP:
        wrong = _wrong_status(outcome)
    else:
        wrong = outcome.code.startswith("5") or outcome.code == "UNKNOWN"
        wrong = wrong or (outcome.code == "INTERNAL" and not _OF_GRPC.match(outcome.details))
    if wrong:
        return f"answered {outcome.code}: {outcome.details}"
    leak = _LEAKS.search(outcome.details)
    return f"answered with a fault's words: {outcome.details}" if leak else ""


def _wrong_status(outcome: Outcome) -> bool:
    match outcome.code:
        case "closed":  # before all of it was sent
            return len(outcome.case.payload) <= MAX_MESSAGE_BYTES
        case "503":
            return not outcome.details.endswith(_NOT_READY)
    return outcome.code not in _STATUSES


def _wrong_call(outcome: Outcome) -> bool:
    case, details = outcome.case, outcome.details
    match outcome.code:
        case "INTERNAL":
            return details != _UNREADABLE or parses(case.method, case.payload)
        case "UNKNOWN":
            return not (case.method == RELOAD and _NOT_AVAILABLE in details)
        case "PERMISSION_DENIED":
            return case.method != RELOAD
        case "DEADLINE_EXCEEDED":
            return case.timeout >= 1
    return outcome.code not in _CODES
