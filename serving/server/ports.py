"""The socket of a port, and the line with the addresses of a server."""

from __future__ import annotations

import socket

from serving.common.errors import Unavailable
from serving.config.server_config import ServerConfig


def bound(host: str, port: int, option: str) -> socket.socket:
    """Returns a bound socket that does not listen yet.

    Args:
        host: Address of this machine.
        port: 0 takes a free one.
        option: Name of the option that sets the port, for the error.

    Raises:
        Unavailable: The port is in use, or the host is not an address of this machine.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound_socket = socket.socket(family, kind, protocol)
        bound_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound_socket.bind(address)
        except OSError:
            bound_socket.close()
            raise
    except OSError as error:
        raise Unavailable(
            f"Cannot listen on {host}:{port}: {error.strerror}. Choose another `{option}` or host."
        ) from error
    return bound_socket


def address_line(config: ServerConfig, port: int, rest_port: int) -> str:
    """Returns the line with the addresses of a server."""
    addresses = [f"{config.address_of(port)} (gRPC)"]
    if config.grpc_socket_path:
        addresses.append(f"unix:{config.grpc_socket_path} (gRPC)")
    if rest_port:
        addresses.append(f"{config.address_of(rest_port)} (REST)")
    return f"Listening on {', '.join(addresses)}. Stop with Ctrl-C."
