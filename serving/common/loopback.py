"""The hosts of this machine. It imports no gRPC, as `--help` needs it."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Returns whether a host is this machine itself, by its name or its IP address."""
    try:
        return host.lower() == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
