"""The text protos that set up a server, read and checked."""

from __future__ import annotations

from typing import Any, NamedTuple

from serving.common.errors import InvalidArgument, ServingError
from serving.config.batching import BatchingParameters
from serving.config.text_protos import parse_text, read_content
from serving.protos import server_config_pb2

METRICS_PATH = "/monitoring/prometheus/metrics"


class Certificates(NamedTuple):
    """What a server shows, and what it asks of clients; all PEM.

    Args:
        key: The server's private key.
        certificate: Its certificate, and those between it and the authority.
        client_authority: Who may sign the certificates of clients; none is looked at where empty.
        client_verify: Whether clients must have one.
    """

    key: bytes
    certificate: bytes
    client_authority: bytes
    client_verify: bool


def read_batching_parameters(path: str) -> BatchingParameters:
    """The parameters of a text proto `BatchingParameters`; what it leaves out has its default.

    Raises:
        ServingError: There is no such file, or it is no such proto; the message names the file.
    """
    message = _read(path, server_config_pb2.BatchingParameters)
    found = {
        field.name: value.value
        for field, value in message.ListFields()
        if field.message_type is not None and field.name != "thread_pool_name"
    }
    try:
        return BatchingParameters(
            allowed_batch_sizes=tuple(message.allowed_batch_sizes),
            pad_variable_length_inputs=message.pad_variable_length_inputs,
            **found,
        )
    except ServingError as error:
        raise InvalidArgument(f"{path}: {error}") from error


def read_certificates(path: str) -> Certificates:
    """The certificates of a text proto `SSLConfig`.

    Raises:
        ServingError: There is no such file, it is no such proto, or a part of it is missing.
    """
    message = parse_text(server_config_pb2.SSLConfig, read_content(path), path, is_secret=True)
    for name in ("server_key", "server_cert"):
        if "-----BEGIN" not in getattr(message, name):
            raise InvalidArgument(
                f"{path}: `{name}` must be PEM, which begins with -----BEGIN. The file holds keys "
                "and certificates themselves, not the paths of their files."
            )
    if message.client_verify and not message.custom_ca:
        raise InvalidArgument(f"{path}: `client_verify` needs `custom_ca`, who signs for clients.")
    return Certificates(
        message.server_key.encode(),
        message.server_cert.encode(),
        message.custom_ca.encode(),
        message.client_verify,
    )


def read_metrics_path(path: str) -> str | None:
    """Where a text proto `MonitoringConfig` wants metrics; None where it wants none.

    Raises:
        ServingError: There is no such file, or it is no such proto.
    """
    config = _read(path, server_config_pb2.MonitoringConfig).prometheus_config
    if config.path and not config.path.startswith("/"):
        raise InvalidArgument(f"{path}: `path` must begin with /. Received: {config.path}")
    return (config.path or METRICS_PATH) if config.enable else None


def read_tokens(path: str) -> frozenset[bytes]:
    """The tokens of a file, one a line.

    Raises:
        ServingError: There is no such file, or no token in it.
    """
    tokens = frozenset(line.strip() for line in read_content(path).splitlines() if line.strip())
    if not tokens:
        raise InvalidArgument(f"{path} holds no token. Expected one or more, one a line.")
    return tokens


def read_token(path: str) -> str:
    """The token of a file that holds one.

    Raises:
        ServingError: There is no such file, or not one token in it.
    """
    tokens = read_tokens(path)
    if len(tokens) > 1:
        raise InvalidArgument(f"{path} holds {len(tokens)} tokens. Expected one.")
    (token,) = tokens
    if not (token.isascii() and token.decode("ascii").isprintable()):
        raise InvalidArgument(f"{path} holds a token that is not printable ASCII.")
    return token.decode()


def _read(path: str, kind: Any) -> Any:
    return parse_text(kind, read_content(path), path)
