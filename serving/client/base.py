"""How both clients are made."""

from __future__ import annotations

from collections.abc import Sequence

from serving.client.connection import Connection
from serving.client.methods import Methods
from serving.client.options import Options
from serving.common.addresses import Addresses
from serving.common.tls import Pem, Tls, Token


class ClientBase:
    """What a client is told once; `Client` and `AsyncClient` differ in their I/O alone.

    Args:
        addresses: `host:port` of the server, several of them, or one name with many addresses
            (`dns:///ctr:8500`). Calls go round those that are connected.
        model: Name of the model; None asks the server, which must then serve just one.
        version: Version of the model; None takes the latest.
        label: Label of the version, instead of its number.
        timeout: Seconds that a method may take, retries included; None waits for ever.
        tls: True trusts the usual authorities; PEM or a path trusts those in it; `Tls` says more.
        token: Sent as `authorization: Bearer ...`, or a function that is asked before each call.
        options: Retries, keep-alive and headers.

    Raises:
        InvalidArgument: An argument cannot be right, or a token would travel in plaintext.
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
        options: Options | None = None,
    ) -> None:
        options = Options() if options is None else options
        where = Addresses.read(addresses)
        self._plans = Methods(
            where, model, version, label, timeout=timeout, metadata=options.metadata
        )
        self._connection = Connection(where, Tls.read(tls), token, options)
        self._start()

    def _start(self) -> None:
        """Sets up what does the I/O."""

    def __repr__(self) -> str:
        plans = self._plans
        given = plans.addresses.given
        shown = [repr(given[0] if len(given) == 1 else list(given)), f"model={plans.model!r}"]
        shown += [f"version={plans.version}"] if plans.version is not None else []
        shown += [f"label={plans.label!r}"] if plans.label is not None else []
        return f"{type(self).__name__}({', '.join(shown)}, timeout={plans.timeout})"

    @property
    def model(self) -> str | None:
        """Name of the model; None until the server was asked for the only one."""
        return self._plans.model
