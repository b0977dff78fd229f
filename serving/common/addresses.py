"""Addresses of servers: one gRPC target, or several host:port."""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from serving.common.errors import InvalidArgument
from serving.common.loopback import is_loopback

_MAX_PORT = 65535
_SCHEME = re.compile(r"(dns|ipv4|ipv6|unix|unix-abstract|vsock|xds):", re.IGNORECASE)
_HOST_AND_PORT = re.compile(r"(\[[^\[\]]+\]|[^\[\]:/,\s]+):(\d{1,5})")


@dataclass(frozen=True)
class Addresses:
    """The addresses of one service; gRPC balances calls over them.

    Args:
        names: One gRPC target (`ctr:8500`, `dns:///ctr:8500`, `unix:/run/ctr.sock`), whose name
            gRPC resolves again when addresses change, or several `host:port`.

    Raises:
        InvalidArgument: An address is not of these forms.

    Example:
        >>> Addresses.read("dns:///ctr:8500").target()
        'dns:///ctr:8500'
        >>> Addresses.read(["10.0.0.1:8500", "10.0.0.2:8500"]).target()
        'ipv4:10.0.0.1:8500,10.0.0.2:8500'
    """

    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.names:
            raise InvalidArgument("`addresses` must name at least one host:port. Received: none")
        for address in self.names:
            is_name = len(self.names) == 1 and _SCHEME.match(str(address))
            match = _HOST_AND_PORT.fullmatch(str(address))
            if not is_name and (match is None or int(match[2]) > _MAX_PORT):
                raise InvalidArgument(
                    "`addresses` must be host:port, or one name such as dns:///ctr:8500. "
                    f"Received: {address!r}"
                )

    @classmethod
    def read(cls, addresses: str | Sequence[str]) -> Addresses:
        """Accepts one address, or a list of them."""
        return cls((addresses,) if isinstance(addresses, str) else tuple(addresses))

    def __str__(self) -> str:
        return ", ".join(self.names)

    @property
    def hosts(self) -> list[str]:
        """The host names; empty if the gRPC target has no host, as a Unix socket."""
        hosts = [re.sub(r"^(dns:(//[^/]*/)?|ipv[46]:)", "", name) for name in self.names]
        parts = [part for host in hosts for part in host.split(",")]
        matches = [_HOST_AND_PORT.fullmatch(part) for part in parts]
        return [match[1].strip("[]") for match in matches if match]

    @property
    def may_be_several(self) -> bool:
        """Whether calls are balanced: a list, or a name that may have several addresses."""
        return len(self.names) > 1 or self.names[0].lower().startswith(("dns:", "xds:"))

    @property
    def is_local(self) -> bool:
        """Whether all traffic stays on this machine."""
        if re.match(r"unix(-abstract)?:", self.names[0]):
            return True
        return bool(self.hosts) and all(map(is_loopback, self.hosts))

    def target(self) -> str:
        """Returns the target for a gRPC channel.

        Host names in a list are resolved once, here, as a gRPC target holds several IP addresses
        but only one name. Names that cannot be resolved are left out. A target has one address
        family: IPv4, if any host has such an address.
        """
        if len(self.names) == 1:
            return self.names[0]
        ips = dict.fromkeys(ip for address in self.names for ip in _resolve(address))
        for scheme, is_six in (("ipv4", False), ("ipv6", True)):
            of_family = [ip for ip in ips if ip.startswith("[") is is_six]
            if of_family:
                return f"{scheme}:{','.join(of_family)}"
        return self.names[0]  # gRPC tries to resolve it, and reports why it cannot


def _resolve(address: str) -> list[str]:
    """Returns the IP addresses of a host with its port, as gRPC writes them."""
    host, _, port = address.rpartition(":")
    try:
        infos = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    ips = sorted({str(info[4][0]) for info in infos})
    return [f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}" for ip in ips]
