"""How one server is set up; names and defaults are TensorFlow Serving's where it has them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

MAX_PORT = 65535
INT32_MAX = 2**31 - 1


@dataclass(frozen=True)
class ServerConfig:
    """One model's folder of versions and the address it is served at.

    Args:
        model_base_path: Folder that holds one folder a version, such as `1/saved_model.pb`.
        model_name: Name that requests ask for; the base folder's own name where empty.
        host: Address to listen on.
        port: Port to listen on; 0 takes a free one.
        file_system_poll_wait_seconds: Time between two looks for a new version;
            0 looks once, at the start.
        grace_seconds: Time that running requests have to finish when the server stops.
        max_workers: Requests answered at the same time.
        max_message_bytes: Largest request and answer.
    """

    model_base_path: str
    model_name: str = ""
    host: str = "127.0.0.1"
    port: int = 8500
    file_system_poll_wait_seconds: float = 1.0
    grace_seconds: float = 30.0
    max_workers: int = 4 * (os.cpu_count() or 1)
    max_message_bytes: int = INT32_MAX

    def __post_init__(self) -> None:
        if not self.model_name:
            object.__setattr__(self, "model_name", Path(self.model_base_path).resolve().name)
        _check("port", self.port, 0 <= self.port <= MAX_PORT, f"a number from 0 to {MAX_PORT}")
        for name in ("file_system_poll_wait_seconds", "grace_seconds"):
            value = getattr(self, name)
            _check(name, value, value >= 0, "a number of seconds, 0 or more")
        _check("max_workers", self.max_workers, self.max_workers > 0, "a positive number")
        _check(
            "max_message_bytes",
            self.max_message_bytes,
            0 < self.max_message_bytes <= INT32_MAX,
            f"a number from 1 to {INT32_MAX}",
        )

    @property
    def address(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def _check(name: str, value: float, valid: bool, expected: str) -> None:
    if not valid:
        raise ValueError(f"`{name}` must be {expected}. Received: {name}={value}")
