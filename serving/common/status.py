"""The status of a version, as in GetModelStatus."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from tensorflow_serving.apis import get_model_status_pb2

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

    def to_proto(self) -> get_model_status_pb2.ModelVersionStatus:
        proto = get_model_status_pb2.ModelVersionStatus(version=self.version, state=self.state)
        proto.status.error_code = 0 if self.error is None else self.error.code.value[0]
        proto.status.error_message = "" if self.error is None else truncated(str(self.error))
        return proto

    @classmethod
    def from_proto(cls, proto: get_model_status_pb2.ModelVersionStatus) -> VersionStatus:
        code, message = proto.status.error_code, proto.status.error_message
        return cls(
            version=proto.version,
            state=State(proto.state),
            error=from_code(code, message) if code else None,
        )
