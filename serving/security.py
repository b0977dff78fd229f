"""Who may ask: tokens, and the certificates of both ends."""

from __future__ import annotations

import hmac
import ssl
import tempfile
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health

from serving.client.security import Tls
from serving.config_files import Certificates
from serving.errors import InvalidArgument, ServingError, Unauthenticated
from serving.interceptors import Refuse, refused

_SCHEME = "bearer "
_OPEN = (f"/{health.SERVICE_NAME}/",)  # probes have no token, and learn nothing worth one


def require_token(tokens: Collection[bytes], header: str | None) -> None:
    """Raises unless an `authorization` header has one of the tokens; any will do where none is set.

    Raises:
        Unauthenticated: It has none, or another one.
    """
    if not tokens:
        return
    if header is None or not header.lower().startswith(_SCHEME):
        raise Unauthenticated("A token is needed: send the header `authorization: Bearer TOKEN`.")
    received = header[len(_SCHEME) :].strip().encode()
    # Compares all of them, each in a time that tells nothing of where they differ.
    if not sum(hmac.compare_digest(received, token) for token in tokens):
        raise Unauthenticated("The token is not one of those that may ask.")


class Authentication(grpc.ServerInterceptor):
    """Refuses calls without a token; health may be asked by all.

    Args:
        tokens: Those that may ask.
        refuse: Told of each call that is refused.
    """

    def __init__(self, tokens: Collection[bytes], refuse: Refuse) -> None:
        self._tokens = tokens
        self._refuse = refuse

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Any],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        if handler_call_details.method.startswith(_OPEN):
            return continuation(handler_call_details)
        metadata = dict(handler_call_details.invocation_metadata)
        try:
            require_token(self._tokens, metadata.get("authorization"))
        except ServingError as error:
            return refused(error, handler_call_details, self._refuse)
        return continuation(handler_call_details)


@dataclass(frozen=True)
class TlsWithToken(Tls):
    """TLS to a server, and the token that every call to it carries; none where it is empty."""

    token: str = field(default="", repr=False)

    def credentials(self) -> grpc.ChannelCredentials:
        encrypted = super().credentials()
        if not self.token:
            return encrypted
        return grpc.composite_channel_credentials(
            encrypted, grpc.access_token_call_credentials(self.token)
        )


def credentials(certificates: Certificates) -> grpc.ServerCredentials:
    """TLS for gRPC; clients show a certificate where one is asked of them.

    Raises:
        InvalidArgument: They cannot be read, or the key is another certificate's.
    """
    tls_context(certificates)  # says what is wrong with them, which gRPC does not
    return grpc.ssl_server_credentials(
        [(certificates.key, certificates.certificate)],
        root_certificates=certificates.client_authority or None,
        require_client_auth=certificates.client_verify,
    )


def tls_context(certificates: Certificates) -> ssl.SSLContext:
    """TLS for REST; Python reads certificates from files alone, so there are some briefly.

    Raises:
        InvalidArgument: They cannot be read, or the key is another certificate's.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    with tempfile.TemporaryDirectory() as folder:
        both = Path(folder) / "both.pem"
        both.touch(mode=0o600)
        both.write_bytes(certificates.certificate + b"\n" + certificates.key)
        try:
            context.load_cert_chain(both, password="")  # or it would ask the terminal
        except ssl.SSLError as error:
            raise InvalidArgument(
                "`ssl_config_file`: `server_key` must be the key of `server_cert`, both in PEM "
                f"and not encrypted. OpenSSL says: {error.reason or error}"
            ) from error
    if certificates.client_authority:
        try:
            context.load_verify_locations(cadata=certificates.client_authority.decode())
        except ssl.SSLError as error:
            raise InvalidArgument(
                "`ssl_config_file`: `custom_ca` must hold certificates in PEM. OpenSSL says: "
                f"{error.reason or error}"
            ) from error
        context.verify_mode = ssl.CERT_REQUIRED if certificates.client_verify else ssl.CERT_OPTIONAL
    return context
