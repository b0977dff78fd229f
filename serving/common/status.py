"""The status of a version, as in GetModelStatus."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from serving.common.errors import ServingError, from_code, truncated


class State(enum.IntEnum):
    """The state of a version; the numbers are those of the protocol."""

    UNKNOWN = 0
    START = 10
    LOADING = 20
    AVAILABLE = 30
    UNLOADING = 40
    END = 50


@dataclass(frozen=True)
class VersionStatus:
    """The state of a version, with its error if it failed or is incomplete."""

    version: int
    state: State
    error: ServingError | None = None

    def write(self, proto: Any) -> None:
        """Writes it to an empty ModelVersionStatus."""
        proto.version, proto.state = self.version, self.state
        proto.status.error_code = 0 if self.error is None else self.error.code.value[0]
        proto.status.error_message = "" if self.error is None else truncated(str(self.error))

    @classmethod
    def from_proto(cls, proto: Any) -> VersionStatus:
        """Reads a ModelVersionStatus, of TensorFlow Serving or of `serving/protos`."""
        code, message = proto.status.error_code, proto.status.error_message
        return cls(
            version=proto.version,
            state=State(proto.state),
            error=from_code(code, message) if code else None,
        )
