"""Ports: bound for one process, or held for several that share them."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from serving.common.errors import Unavailable
from serving.config.server_config import ServerConfig


def bound(host: str, port: int, option: str, shares_port: bool) -> socket.socket:
    """A socket that is bound and does not listen: nothing that connects to it gets through.

    Args:
        host: Address of this machine.
        port: 0 takes a free one.
        option: What the port is called in the options, for the error.
        shares_port: Whether other processes of this user may bind and listen there too.

    Raises:
        Unavailable: Somebody else listens there, or the host is not this machine's.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        found = socket.socket(family, kind, protocol)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shares_port:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            found.bind(address)
        except OSError:
            found.close()
            raise
    except OSError as error:
        raise Unavailable(
            f"Cannot listen on {host}:{port}: {error.strerror}. Choose another `{option}` or host."
        ) from error
    return found


@contextmanager
def held(config: ServerConfig) -> Iterator[ServerConfig]:
    """The configuration with the ports that its processes are to share, kept for them.

    Raises:
        Unavailable: A port is taken, also by processes that would share it.
    """
    with ExitStack() as sockets:
        for option in ("port", "rest_api_port"):
            port = getattr(config, option)
            if option == "port" or port:
                with bound(config.host, port, option, shares_port=False) as alone:
                    port = alone.getsockname()[1]
                sockets.enter_context(bound(config.host, port, option, shares_port=True))
                config = replace(config, **{option: port})
        yield config


def listening(config: ServerConfig, port: int, rest_port: int) -> str:
    """Where a server listens, in a sentence."""
    places = [f"{config.address_of(port)} (gRPC)"]
    if config.grpc_socket_path:
        places.append(f"unix:{config.grpc_socket_path} (gRPC)")
    if rest_port:
        places.append(f"{config.address_of(rest_port)} (REST)")
    shared = f" in {config.processes} processes" if config.processes > 1 else ""
    return f"Listening on {', '.join(places)}{shared}. Stop with Ctrl-C."
