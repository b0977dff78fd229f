"""Where the servers are: one gRPC name, or several host:port."""

from __future__ import annotations

import ipaddress
import re
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from serving.common.errors import InvalidArgument

REFRESH_SECONDS = 30.0  # gRPC looks up a single name itself; several are looked up here
_MAX_PORT = 65535
_SCHEME = re.compile(r"(dns|ipv4|ipv6|unix|unix-abstract|vsock|xds):", re.IGNORECASE)
_HOST_AND_PORT = re.compile(r"(\[[^\[\]]+\]|[^\[\]:/,\s]+):(\d{1,5})")


@dataclass(frozen=True)
class Addresses:
    """The addresses as they were given; calls go round those that are connected.

    Args:
        given: One `host:port` or gRPC name (`dns:///ctr:8500`, `unix:/run/ctr.sock`), or several
            `host:port`.
    """

    given: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.given:
            raise InvalidArgument("`addresses` must name at least one host:port. Received: none")
        for address in self.given:
            is_name = len(self.given) == 1 and _SCHEME.match(str(address))
            found = _HOST_AND_PORT.fullmatch(str(address))
            if not is_name and (found is None or int(found[2]) > _MAX_PORT):
                raise InvalidArgument(
                    "`addresses` must be host:port, or one name such as dns:///ctr:8500. "
                    f"Received: {address!r}"
                )

    @classmethod
    def read(cls, addresses: str | Sequence[str]) -> Addresses:
        return cls((addresses,) if isinstance(addresses, str) else tuple(addresses))

    def __str__(self) -> str:
        return ", ".join(self.given)

    @property
    def hosts(self) -> list[str]:
        """The hosts' names; none where the gRPC name has no host."""
        names = [re.sub(r"^(dns:(//[^/]*/)?|ipv[46]:)", "", name) for name in self.given]
        parts = [part for name in names for part in name.split(",")]
        found = [_HOST_AND_PORT.fullmatch(part) for part in parts]
        return [match[1].strip("[]") for match in found if match]

    @property
    def is_local(self) -> bool:
        """Whether nothing that is sent leaves this machine."""
        if re.match(r"unix(-abstract)?:", self.given[0]):
            return True
        return bool(self.hosts) and all(map(_is_loopback, self.hosts))

    @property
    def needs_lookup(self) -> bool:
        """Whether these are several names, which gRPC does not look up."""
        return len(self.given) > 1 and any(_literal(h) is None for h in self.hosts)

    def look_up(self) -> dict[str, list[str]]:
        """The IP addresses of each of several, without those that are not found."""
        if len(self.given) == 1:
            return {}
        found = {address: _look_up(address) for address in self.given}
        return {address: ips for address, ips in found.items() if ips}

    def target(self, found: Mapping[str, Sequence[str]]) -> str:
        """What gRPC connects to. Of several, those that were not found are left out."""
        if len(self.given) == 1:
            return self.given[0]
        known = dict.fromkeys(ip for address in self.given for ip in found.get(address, ()))
        for scheme, is_six in (("ipv4", False), ("ipv6", True)):  # one target is of one family
            of_family = [ip for ip in known if ip.startswith("[") is is_six]
            if of_family:
                return f"{scheme}:{','.join(of_family)}"
        return self.given[0]  # gRPC looks it up again and says what is wrong


class Target:
    """What gRPC connects to now; one thread at a time looks the names up again.

    Args:
        addresses: Where the servers are.
    """

    def __init__(self, addresses: Addresses) -> None:
        self._addresses = addresses
        self._lock = threading.Lock()  # held by who looks up
        self._found = addresses.look_up()
        self.name = addresses.target(self._found)
        self._looked_up = time.monotonic()

    def is_due(self) -> bool:
        """Whether the names should be looked up again."""
        age = time.monotonic() - self._looked_up
        return self._addresses.needs_lookup and age > REFRESH_SECONDS

    def refresh(self) -> bool:
        """Looks up, and says whether the answer is another; it may take as long as DNS takes."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            self._looked_up = time.monotonic()
            self._found |= self._addresses.look_up()  # what fails for a moment stays as it was
            before, self.name = self.name, self._addresses.target(self._found)
            return before != self.name
        finally:
            self._lock.release()


def _look_up(address: str) -> list[str]:
    """The IP addresses of a host, each with the port, as gRPC writes them."""
    host, _, port = address.rpartition(":")
    try:
        infos = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    ips = sorted({str(info[4][0]) for info in infos})
    return [f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}" for ip in ips]


def _literal(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _is_loopback(host: str) -> bool:
    literal = _literal(host)
    return host.lower() == "localhost" if literal is None else literal.is_loopback
