"""TLS of a client, and the bearer token of its calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from serving.common.addresses import Addresses
from serving.common.errors import InvalidArgument
from serving.common.headers import is_header

Pem = bytes | str | Path  # PEM, or the path of a PEM file
Token = str | Callable[[], str] | Callable[[], Awaitable[str]]


@dataclass(frozen=True)
class Tls:
    """Certificates of a TLS connection. PEM is given as bytes, or as the path of a file.

    Args:
        ca: Certificates of the trusted authorities; None for those that come with gRPC.
        certificate: The client's certificate, for servers that require one (mutual TLS).
        key: The private key of `certificate`.
        server_name: Name in the server's certificate, if it differs from the host name.

    Example:
        >>> public = Tls()  # trusts the authorities that come with gRPC
        >>> private = Tls(ca="/etc/ctr/ca.pem")
        >>> mutual = Tls("/etc/ctr/ca.pem", certificate="/etc/ctr/me.pem", key="/etc/ctr/me.key")
        >>> by_address = Tls(ca="/etc/ctr/ca.pem", server_name="ctr.example")
    """

    ca: Pem | None = None
    certificate: Pem | None = None
    key: Pem | None = field(default=None, repr=False)
    server_name: str | None = None

    @classmethod
    def read(cls, tls: bool | Pem | Tls) -> Tls | None:
        """Returns the settings: True trusts public authorities, PEM those in it; False is None."""
        if isinstance(tls, Tls):
            return tls
        if isinstance(tls, bool):
            return cls() if tls else None
        return cls(ca=tls)

    def credentials(self) -> grpc.ChannelCredentials:
        """Returns the credentials of a gRPC channel.

        Raises:
            InvalidArgument: A file cannot be read or is not PEM, or one of `certificate` and
                `key` is missing.
        """
        if (self.certificate is None) != (self.key is None):
            present, missing = (
                ("certificate", "key") if self.key is None else ("key", "certificate")
            )
            raise InvalidArgument(f"`tls.{present}` needs `tls.{missing}` too.")
        return grpc.ssl_channel_credentials(
            _pem("ca", self.ca), _pem("key", self.key), _pem("certificate", self.certificate)
        )

    def options(self, addresses: Addresses) -> list[tuple[str, Any]]:
        """Returns the channel options for the name that the certificate must hold."""
        name = self.server_name
        if name is None and len(addresses.names) > 1:
            if len(set(addresses.hosts)) > 1:
                raise InvalidArgument(
                    "TLS to several hosts checks one name: give `tls.server_name`, which the "
                    f"certificate of each must hold. Received: {addresses}"
                )
            name = addresses.hosts[0]
        return [] if name is None else [("grpc.ssl_target_name_override", name)]


def check_token(
    token: Token | None, tls: Tls | None, addresses: Addresses, allow_insecure: bool
) -> None:
    """Raises InvalidArgument for an invalid token, or one that would travel unencrypted."""
    if token is None:
        return
    if tls is None and not addresses.is_local and not allow_insecure:
        raise InvalidArgument(
            f"A token would cross the network in plaintext to {addresses}: set `tls`, or "
            "`ClientOptions(allow_insecure_token=True)` if something else encrypts."
        )
    if not callable(token):
        authorization(token)


def authorization(token: Any) -> tuple[str, str]:
    """Returns the header that carries a token; its errors never show the token."""
    if not token or not is_header(token):
        raise InvalidArgument(
            "`token` must be printable ASCII, or a function that returns it. "
            f"Received: {type(token).__name__}"
        )
    return "authorization", f"Bearer {token}"


def _pem(name: str, source: Pem | None) -> bytes | None:
    if source is None:
        return None
    location = "bytes" if isinstance(source, bytes) else str(source)
    try:
        content = source if isinstance(source, bytes) else Path(source).read_bytes()
    except OSError as error:
        raise InvalidArgument(f"Cannot read `tls.{name}` {location}: {error.strerror}.") from error
    if b"-----BEGIN " not in content:
        raise InvalidArgument(f"`tls.{name}` must be PEM (-----BEGIN ...). Received: {location}")
    return content
