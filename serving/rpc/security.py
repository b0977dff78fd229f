"""Access to the server: bearer tokens and TLS."""

from __future__ import annotations

import hmac
import ssl
import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import grpc

from serving.common.errors import InvalidArgument, PermissionDenied, Unauthenticated
from serving.common.rpc_names import MODEL_SERVICE, STATE_SERVICE
from serving.config.files import Certificates

_SCHEME = "bearer "
_RELOAD = f"/{MODEL_SERVICE}/HandleReloadConfigRequest"
_PUSH = f"/{STATE_SERVICE}/Push"


@dataclass(frozen=True)
class Access:
    """The rights of a client by its `authorization` header.

    Args:
        tokens: Every call needs one of them, or one of `reload_tokens`; empty needs no token.
        reload_tokens: A reload needs one of them.
        allows_reload: Whether every client may reload if there are no `reload_tokens`.
        push_tokens: A push of events needs one of them.
        allows_push: Whether every client may push if there are no `push_tokens`.
    """

    tokens: frozenset[bytes] = frozenset()
    reload_tokens: frozenset[bytes] = frozenset()
    allows_reload: bool = True
    push_tokens: frozenset[bytes] = frozenset()
    allows_push: bool = True

    @property
    def is_free(self) -> bool:
        """Whether every client may make every call."""
        has_tokens = self.tokens or self.reload_tokens or self.push_tokens
        return not has_tokens and self.allows_reload and self.allows_push

    def require(self, header: str | None) -> None:
        """Raises if a client may make no call.

        Raises:
            Unauthenticated: The header has no valid token.
        """
        every = self.tokens | self.reload_tokens | self.push_tokens
        if self.tokens and not _is_one_of(every, _token(header)):
            raise Unauthenticated("Invalid token.")

    def require_push(self, header: str | None) -> None:
        """Raises if a client may not push events.

        Raises:
            Unauthenticated: The header has no valid token.
            PermissionDenied: The token is not for pushes, or pushes are disabled.
        """
        self.require(header)
        if self.push_tokens:
            if not _is_one_of(self.push_tokens, _token(header)):
                raise PermissionDenied("A push needs a token of `push_token_file`.")
        elif not self.allows_push:
            raise PermissionDenied(
                "This server can be reached from other machines and takes no events. Start it "
                "with `push_token_file` or `allow_push`."
            )

    def require_reload(self, header: str | None) -> None:
        """Raises if a client may not reload.

        Raises:
            Unauthenticated: The header has no valid token.
            PermissionDenied: The token is not for reloads, or reloads are disabled.
        """
        self.require(header)
        if self.reload_tokens:
            if not _is_one_of(self.reload_tokens, _token(header)):
                raise PermissionDenied("A reload needs a token of `reload_token_file`.")
        elif not self.allows_reload:
            raise PermissionDenied(
                "This server can be reached from other machines and allows no reload. Start it "
                "with `reload_token_file` or `allow_reload`, or change its `model_config_file`."
            )


def _token(header: str | None) -> bytes:
    if header is None or not header.lower().startswith(_SCHEME):
        raise Unauthenticated("A token is needed: send the header `authorization: Bearer TOKEN`.")
    return header[len(_SCHEME) :].strip().encode()


def _is_one_of(tokens: Collection[bytes], received: bytes) -> bool:
    # Compares all of them in constant time, against timing attacks.
    return sum(hmac.compare_digest(received, token) for token in tokens) > 0


def require_token(access: Access, details: grpc.HandlerCallDetails) -> None:
    """Raises if a call has no token that allows it.

    Raises:
        Unauthenticated, PermissionDenied: As of `Access`.
    """
    header = dict(details.invocation_metadata).get("authorization")
    requirements = {_RELOAD: access.require_reload, _PUSH: access.require_push}
    requirements.get(details.method, access.require)(header)


def credentials(certificates: Certificates) -> grpc.ServerCredentials:
    """Returns the TLS settings of the gRPC server.

    Raises:
        InvalidArgument: They cannot be read, or the key does not belong to the certificate.
    """
    tls_context(certificates)  # its errors say more than those of gRPC
    return grpc.ssl_server_credentials(
        [(certificates.key, certificates.certificate)],
        root_certificates=certificates.client_authority or None,
        require_client_auth=certificates.client_verify,
    )


def tls_context(certificates: Certificates) -> ssl.SSLContext:
    """Returns the TLS settings of the REST server.

    Python reads certificates from files alone, so they are in a temporary folder meanwhile.

    Raises:
        InvalidArgument: They cannot be read, or the key does not belong to the certificate.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "both.pem"
        file.touch(mode=0o600)
        file.write_bytes(certificates.certificate + b"\n" + certificates.key)
        try:
            context.load_cert_chain(file, password="")  # otherwise OpenSSL asks the terminal
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
