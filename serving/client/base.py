"""The constructor of both clients."""

from __future__ import annotations

from collections.abc import Sequence

from serving.client.connection import Connection
from serving.client.methods import Methods
from serving.client.options import ClientOptions
from serving.common.addresses import Addresses
from serving.common.tls import Pem, Tls, Token


class ClientBase:
    """The common part of `Client` and `AsyncClient`, which differ only in how they send.

    Args:
        addresses: `host:port` of the server, a list of them, or one gRPC target
            (`dns:///ctr:8500`). Calls are balanced over all addresses. Host names in a list are
            resolved once; prefer a `dns:///` name whose addresses change.
        model: Name of the model; None for the only model that the server has.
        version: Version of the model; None for the latest.
        label: Label of the version, instead of its number.
        timeout: Seconds that a method may take, retries included; None for no limit. Defaults to
            5; lower it when late scores are useless.
        tls: True trusts public authorities; PEM or its path those in it; `Tls` for more.
        token: Sent as `authorization: Bearer ...`; a function is called before each request.
        options: Retries, keep-alive and headers.

    Raises:
        InvalidArgument: An argument is not valid, or a token would travel unencrypted.
    """

    def __init__(
        self,
        addresses: str | Sequence[str] = "localhost:8500",
        *,
        model: str | None = None,
        version: int | None = None,
        label: str | None = None,
        timeout: float | None = 5.0,
        tls: bool | Pem | Tls = False,
        token: Token | None = None,
        options: ClientOptions | None = None,
    ) -> None:
        options = ClientOptions() if options is None else options
        servers = Addresses.read(addresses)
        self._methods = Methods(
            servers, model, version, label, timeout=timeout, metadata=options.metadata
        )
        self._connection = Connection(servers, Tls.read(tls), token, options)
        self._start()

    def _start(self) -> None:
        """Sets up the I/O."""

    def __repr__(self) -> str:
        methods = self._methods
        addresses = methods.addresses.names
        arguments = [
            repr(addresses[0] if len(addresses) == 1 else list(addresses)),
            f"model={methods.model!r}",
        ]
        arguments += [f"version={methods.version}"] if methods.version is not None else []
        arguments += [f"label={methods.label!r}"] if methods.label is not None else []
        return f"{type(self).__name__}({', '.join(arguments)}, timeout={methods.timeout})"

    @property
    def model(self) -> str | None:
        """Name of the model; None until the server has named its only one."""
        return self._methods.model
