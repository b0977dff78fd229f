"""Options of a client: retries, connections and headers, all of which gRPC implements."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from serving.common.errors import InvalidArgument
from serving.common.headers import REQUEST_ID, is_header

MAX_ATTEMPTS = 5  # gRPC's own limit
_MAX_TOKENS = 1000
_MOST_SECONDS = 1e9
_MOST_MS = 2**31 - 1  # means never to gRPC
_MIN_BACKOFF = 0.01  # below 2 ms gRPC never makes the second attempt: the call hangs
_RESERVED = {"authorization": "`token`", REQUEST_ID: "`request_id`"}


@dataclass(frozen=True)
class ClientOptions:
    """Retries, connections and headers of a client. Times are in seconds.

    UNAVAILABLE is retried (no server listens, the connection broke, or the server is stopping),
    and CANCELLED, with which a stopping gRPC server answers calls in transit. A call is retried
    up to its attempts and its deadline, while the client's retry budget lasts: each failure takes
    one token, each success returns `retry_ratio`, and below half of `retry_tokens` no call is
    retried.

    Args:
        attempts: Attempts of a call, 1 to 5. Defaults to 5; 1 disables retries.
        initial_backoff: Wait before the second attempt, at least 0.01; it doubles with each, and
            varies by a fifth. Defaults to 0.05, with which five attempts take 0.8 s; raise it to
            wait for a server that starts.
        max_backoff: Longest wait between attempts. Defaults to 1.
        retry_tokens: Budget of failures, up to 1000; clients of one address share it. Lower it
            to spare servers that fail.
        retry_ratio: Part of a token that a success returns.
        max_reconnect_backoff: Longest wait between two attempts to connect.
        keep_alive: Idle time after which the connection is tested, and again; None never tests.
            Set it when a firewall drops idle connections. Many servers close connections that
            are tested more than once in five minutes.
        keep_alive_timeout: Wait for the answer to such a test.
        health_service: Service of grpc.health.v1 that each of several servers must report as
            SERVING to get requests for scores. Defaults to "", the whole server. A server without
            a health service gets them too. Set None if one answers health checks only with a
            token, or reports NOT_SERVING though it has the model.
        metadata: Headers of every call.
        allow_insecure_token: Whether a token may leave this machine unencrypted. Set it only if
            something else encrypts, such as a service mesh.

    Raises:
        InvalidArgument: A value is out of range.

    Example:
        >>> fast = ClientOptions(attempts=2, max_backoff=0.1)
        >>> no_retries = ClientOptions(attempts=1)
        >>> idle = ClientOptions(keep_alive=600.0)  # behind a firewall
        >>> labelled = ClientOptions(metadata={"x-team": "ads"})
    """

    attempts: int = MAX_ATTEMPTS
    initial_backoff: float = 0.05
    max_backoff: float = 1.0
    retry_tokens: int = _MAX_TOKENS
    retry_ratio: float = 0.1
    max_reconnect_backoff: float = 1.0
    keep_alive: float | None = None
    keep_alive_timeout: float = 10.0
    health_service: str | None = ""
    metadata: Mapping[str, str | bytes] = field(default_factory=dict)
    allow_insecure_token: bool = False

    def __post_init__(self) -> None:
        for name, low, high in (("attempts", 1, MAX_ATTEMPTS), ("retry_tokens", 1, _MAX_TOKENS)):
            value = getattr(self, name)
            if not isinstance(value, int) or not low <= value <= high:
                raise InvalidArgument(
                    f"`{name}` must be an integer from {low} to {high}. Received: {value!r}"
                )
        for name in ("initial_backoff", "max_backoff", "retry_ratio", "max_reconnect_backoff"):
            check_positive(name, getattr(self, name))
        if min(self.initial_backoff, self.max_backoff) < _MIN_BACKOFF:
            raise InvalidArgument(
                f"`initial_backoff` and `max_backoff` must be at least {_MIN_BACKOFF} s. "
                f"Received: {self.initial_backoff} and {self.max_backoff}"
            )
        check_positive("keep_alive", 1.0 if self.keep_alive is None else self.keep_alive)
        check_positive("keep_alive_timeout", self.keep_alive_timeout)
        check_metadata(self.metadata)

    def channel_options(self, asks_health: bool = False) -> list[tuple[str, Any]]:
        """Returns the options as gRPC names them.

        Args:
            asks_health: Whether calls go only to servers whose `health_service` is SERVING.
        """
        chosen: dict[str, Any] = {
            "grpc.service_config": json.dumps(self._service_config(asks_health)),
            "grpc.max_receive_message_length": -1,
            "grpc.max_send_message_length": -1,
            "grpc.enable_retries": int(self.attempts > 1),
            # Larger requests would not be retried; gRPC's default is 256 KiB.
            "grpc.per_rpc_retry_buffer_size": 2**31 - 1,
            "grpc.initial_reconnect_backoff_ms": min(100, _ms(self.max_reconnect_backoff)),
            "grpc.max_reconnect_backoff_ms": _ms(self.max_reconnect_backoff),
            "grpc.min_reconnect_backoff_ms": 5000,  # gRPC's limit for connecting
            "grpc.dns_min_time_between_resolutions_ms": _ms(self.max_reconnect_backoff),
        }
        if self.keep_alive is not None:
            chosen |= {
                "grpc.keepalive_time_ms": _ms(self.keep_alive),
                "grpc.keepalive_timeout_ms": _ms(self.keep_alive_timeout),
                "grpc.keepalive_permit_without_calls": 1,
                "grpc.http2.max_pings_without_data": 0,
            }
        return list(chosen.items())

    def _service_config(self, asks_health: bool) -> dict[str, Any]:
        config: dict[str, Any] = {"loadBalancingConfig": [{"round_robin": {}}]}
        if asks_health:
            config["healthCheckConfig"] = {"serviceName": self.health_service}
        if self.attempts > 1:
            policy = {
                "maxAttempts": self.attempts,
                "initialBackoff": _seconds(self.initial_backoff),
                "maxBackoff": _seconds(self.max_backoff),
                "backoffMultiplier": 2,
                "retryableStatusCodes": ["UNAVAILABLE", "CANCELLED"],
            }
            config["methodConfig"] = [{"name": [{}], "retryPolicy": policy}]
            config["retryThrottling"] = {
                "maxTokens": self.retry_tokens,
                "tokenRatio": self.retry_ratio,
            }
        return config


def check_positive(name: str, value: Any) -> None:
    """Raises InvalidArgument unless the value is a positive number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise InvalidArgument(f"`{name}` must be a positive number. Received: {value!r}")


def check_metadata(metadata: Mapping[str, str | bytes]) -> None:
    """Raises InvalidArgument for a header that gRPC would not send."""
    for key, value in metadata.items():
        if key in _RESERVED:
            raise InvalidArgument(f"`metadata` must leave {key!r} to {_RESERVED[key]}.")
        if not re.fullmatch(r"[0-9a-z_.-]+", str(key)) or key.startswith("grpc-"):
            raise InvalidArgument(
                "A key of `metadata` must be lower-case letters, digits and -_. and not begin "
                f"with grpc-. Received: {key!r}"
            )
        wants = bytes if key.endswith("-bin") else str
        if not isinstance(value, wants) or (wants is str and not is_header(value)):
            expected = "bytes" if wants is bytes else "printable ASCII"
            raise InvalidArgument(f"`metadata[{key!r}]` must be {expected}. Received: {value!r}")


def _seconds(seconds: float) -> str:
    return f"{min(seconds, _MOST_SECONDS):.9f}s"


def _ms(seconds: float) -> int:
    return max(1, round(min(seconds * 1000, _MOST_MS)))
