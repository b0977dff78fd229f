"""Reads and checks the configuration files of a server."""

from __future__ import annotations

from typing import Any, NamedTuple

from serving.common.errors import InvalidArgument, ServingError
from serving.config.batching import BatchingParameters
from serving.config.text_protos import parse_text, read_content
from serving.protos import server_config_pb2

METRICS_PATH = "/monitoring/prometheus/metrics"


class Certificates(NamedTuple):
    """The certificates of a server, all in PEM.

    Args:
        key: The server's private key.
        certificate: The server's certificate chain.
        client_authority: Authority of client certificates; if empty, they are not checked.
        client_verify: Whether clients must send a certificate.
    """

    key: bytes
    certificate: bytes
    client_authority: bytes
    client_verify: bool


def read_batching_parameters(path: str) -> BatchingParameters:
    """Reads a text proto `BatchingParameters`; missing parameters have their defaults.

    Raises:
        ServingError: The file is missing or invalid; the message names it.
    """
    message = _read_message(path, server_config_pb2.BatchingParameters)
    parameters = {
        field.name: value.value
        for field, value in message.ListFields()
        if field.message_type is not None and field.name != "thread_pool_name"
    }
    try:
        return BatchingParameters(
            allowed_batch_sizes=tuple(message.allowed_batch_sizes),
            pad_variable_length_inputs=message.pad_variable_length_inputs,
            **parameters,
        )
    except ServingError as error:
        raise InvalidArgument(f"{path}: {error}") from error


def read_certificates(path: str) -> Certificates:
    """Reads the certificates of a text proto `SSLConfig`.

    Raises:
        ServingError: The file is missing, invalid or incomplete.
    """
    message = parse_text(server_config_pb2.SSLConfig, read_content(path), path, is_secret=True)
    for name in ("server_key", "server_cert"):
        if "-----BEGIN" not in getattr(message, name):
            raise InvalidArgument(
                f"{path}: `{name}` must be PEM, which starts with -----BEGIN. Insert the content "
                "of the PEM files, not their paths."
            )
    if message.client_verify and not message.custom_ca:
        raise InvalidArgument(
            f"{path}: `client_verify` needs `custom_ca`, the authority of the clients."
        )
    return Certificates(
        message.server_key.encode(),
        message.server_cert.encode(),
        message.custom_ca.encode(),
        message.client_verify,
    )


def read_metrics_path(path: str) -> str | None:
    """Reads the path of the metrics from a text proto `MonitoringConfig`; None if disabled.

    Raises:
        ServingError: The file is missing or invalid.
    """
    config = _read_message(path, server_config_pb2.MonitoringConfig).prometheus_config
    if config.path and not config.path.startswith("/"):
        raise InvalidArgument(f"{path}: `path` must start with /. Received: {config.path}")
    return (config.path or METRICS_PATH) if config.enable else None


def read_tokens(path: str) -> frozenset[bytes]:
    """Reads a file of tokens, one per line.

    Raises:
        ServingError: The file is missing, or has no token.
    """
    tokens = frozenset(line.strip() for line in read_content(path).splitlines() if line.strip())
    if not tokens:
        raise InvalidArgument(f"{path} has no token. Expected one or more, one per line.")
    return tokens


def read_token(path: str) -> str:
    """Reads a file of one token.

    Raises:
        ServingError: The file is missing, or does not have exactly one token.
    """
    tokens = read_tokens(path)
    if len(tokens) > 1:
        raise InvalidArgument(f"{path} has {len(tokens)} tokens. Expected one.")
    (token,) = tokens
    if not (token.isascii() and token.decode("ascii").isprintable()):
        raise InvalidArgument(f"{path} has a token that is not printable ASCII.")
    return token.decode()


def _read_message(path: str, kind: Any) -> Any:
    return parse_text(kind, read_content(path), path)
