"""The servers of a backend, called in turn."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import grpc

from serving.common.addresses import Addresses
from serving.common.errors import DeadlineExceeded, NotFound, Unavailable, from_code
from serving.common.request import LONGEST_SECONDS
from serving.common.tls import Tls
from serving.common.trace_context import COMPUTED

_SCHEME = re.compile("grpcs?://")
_QUERY_SECONDS = 10.0  # for metadata and status, divided among the servers
# Not the client's fault, and another server may accept.
_REFUSALS = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)
_SILENT = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
_OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.lb_policy_name", "round_robin"),  # over the addresses of one name
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.max_reconnect_backoff_ms", 5_000),
]

Stub = Callable[[grpc.Channel], Any]  # makes the method to call on a channel


def backend_addresses(backend: str) -> tuple[str, ...]:
    """Returns the addresses in `grpc://HOST:PORT[,HOST:PORT]`, or `grpcs://`.

    Raises:
        ValueError: The text has another form.

    Example:
        >>> backend_addresses("grpc://a:8500,b:8500")
        ('a:8500', 'b:8500')
    """
    addresses = tuple(part.strip() for part in _SCHEME.sub("", backend, count=1).split(","))
    if not _SCHEME.match(backend) or not all(
        address.rpartition(":")[0] and address.rpartition(":")[2].isdecimal()
        for address in addresses
    ):
        raise ValueError(
            "`backend` must be grpc://HOST:PORT[,HOST:PORT], or grpcs:// for TLS. "
            f"Received: backend={backend!r}"
        )
    return addresses


class BackendPool:
    """Servers called round robin; the next one takes over for one that does not answer.

    It also takes over for a server without the requested version, as a rollout reaches some
    servers before others.

    Args:
        addresses: `host:port` of each server.
        tls: Encryption; None for plaintext.

    Raises:
        InvalidArgument: A file of `tls` is not valid.
    """

    def __init__(self, addresses: Sequence[str], tls: Tls | None = None) -> None:
        self._addresses = tuple(addresses)
        if tls is None:
            self._channels = [grpc.insecure_channel(a, options=_OPTIONS) for a in addresses]
        else:
            credentials = tls.credentials()
            self._channels = [
                grpc.secure_channel(a, credentials, [*_OPTIONS, *tls.options(Addresses((a,)))])
                for a in addresses
            ]
        self._calls = itertools.count()

    def call(self, stub: Stub, request: Any, timeout: float | None) -> Any:
        """Returns the first answer, beginning with the server whose turn it is.

        Raises:
            ServingError: The error of a server, with its code and message.
            NotFound: All servers that answer lack the model or version.
            Unavailable: No server answers.
        """
        count = len(self._channels)
        first = next(self._calls)
        order = [(first + offset) % count for offset in range(count)]
        end = None if timeout is None else time.monotonic() + min(timeout, LONGEST_SECONDS)

        def remaining() -> float | None:
            seconds = None if end is None else end - time.monotonic()
            if seconds is not None and seconds <= 0:
                raise DeadlineExceeded("The deadline passed before the backend answered.")
            return seconds

        return next(self._answers(order, stub, request, remaining, _SILENT[:1]))

    def query(self, stub: Stub, request: Any) -> Iterator[Any]:
        """Yields the answer of each server from the first one on; slow servers are skipped.

        Raises:
            ServingError: As `call`.
        """
        order, seconds = range(len(self._channels)), _QUERY_SECONDS / len(self._channels)
        return self._answers(order, stub, request, lambda: seconds, _SILENT)

    def close(self) -> None:
        """Closes the connections."""
        for channel in self._channels:
            channel.close()

    def _answers(
        self,
        order: Iterable[int],
        stub: Stub,
        request: Any,
        timeout: Callable[[], float | None],
        skipped: Sequence[grpc.StatusCode],
    ) -> Iterator[Any]:
        """Yields the answers in order, and raises at the end if there was none."""
        has_answered, reason, not_found = False, "", ""
        headers = COMPUTED.get().headers
        for i in order:
            try:
                answer = stub(self._channels[i])(request, timeout=timeout(), metadata=headers)
            except grpc.RpcError as error:
                address, code, details = self._addresses[i], error.code(), error.details()
                if code == grpc.StatusCode.NOT_FOUND:
                    not_found = details
                elif code in skipped:
                    reason = f"{address}: {details}"
                elif code in _REFUSALS:
                    reason = (
                        f"{address}, rejects this server; check `backend_token_file` and the "
                        f"certificate `backend_tls_cert`: {details}"
                    )
                else:
                    raise from_code(code.value[0], details) from error
            else:
                has_answered = True
                yield answer
        if not_found and not has_answered:
            raise NotFound(not_found)
        if not has_answered:
            raise Unavailable(f"No server of the backend answers; the last one, {reason}")
