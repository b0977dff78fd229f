"""Logs and metrics of the validity of a server's certificates."""

from __future__ import annotations

import base64
import datetime
import logging
import re
from typing import NamedTuple

from serving.common.errors import InvalidArgument
from serving.config.files import Certificates
from serving.config.server_config import ServerConfig
from serving.config.text_protos import read_content
from serving.observability.metrics import ServerMetrics

_LOGGER = logging.getLogger(__name__)
_PEM = re.compile(
    rb"-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----(.+?)-----END (?:X509 |TRUSTED )?CERTIFICATE",
    re.DOTALL,
)
_VERSION, _SHORT_YEAR = 0xA0, 0x17  # tags: [0], and UTCTime, whose years have two digits
_PIVOT = 50  # these years are from 1950 to 2049
_SOON = datetime.timedelta(days=30)


class Validity(NamedTuple):
    """The first and the last moment of a certificate's validity."""

    start: datetime.datetime
    end: datetime.datetime


def validity(pem: bytes) -> Validity:
    """Reads the validity of the first certificate of a chain, which is the server's own.

    Python's `ssl` reads the certificates of authorities and peers only, so the first fields of the
    certificate are parsed here (RFC 5280, 4.1).

    Raises:
        InvalidArgument: The content has no certificate.
    """
    try:
        match = _PEM.search(pem)
        return _parse(base64.b64decode(match[1] if match else b""))
    except (IndexError, ValueError) as error:
        raise InvalidArgument("Expected a certificate in PEM. Received: none") from error


def report_certificates(
    config: ServerConfig, certificates: Certificates | None, metrics: ServerMetrics | None
) -> None:
    """Logs the certificates that are invalid or expire soon, and exports their expiry as metrics.

    Raises:
        ServingError: One of them is no certificate; the message names the option.
    """
    certificates_by_name: dict[str, tuple[str, bytes]] = {}
    if certificates is not None:
        certificates_by_name["certificate"] = "ssl_config_file", certificates.certificate
    if config.backend_tls_cert:
        certificates_by_name["backend_certificate"] = (
            "backend_tls_cert",
            read_content(config.backend_tls_cert),
        )
    for name, (option, pem) in certificates_by_name.items():
        try:
            period = validity(pem)
        except InvalidArgument as error:
            raise InvalidArgument(f"`{option}`: {error}") from error
        log_validity(option, period, datetime.datetime.now(datetime.UTC))
        if metrics is not None:
            metrics.gauge(
                f"{name}_expires_seconds",
                f"When the certificate of {option} expires, in seconds since 1970.",
                period.end.timestamp,
            )


def log_validity(option: str, period: Validity, now: datetime.datetime) -> None:
    """Logs a certificate that is not valid, or expires within 30 days."""
    start, end = period
    if end < now:
        _LOGGER.error("The certificate of %s expired on %s: clients will reject it", option, end)
    elif start > now:
        _LOGGER.error(
            "The certificate of %s is not valid before %s: clients will reject it", option, start
        )
    elif end < now + _SOON:
        _LOGGER.warning("The certificate of %s expires on %s", option, end)


def _parse(der: bytes) -> Validity:
    _, at, _ = _element(der, 0)  # the certificate
    _, at, _ = _element(der, at)  # its signed part
    # Fields before the validity: version (optional), serial number, signature, issuer.
    for _ in range(4 if der[at] == _VERSION else 3):
        _, _, at = _element(der, at)
    _, at, _ = _element(der, at)
    start, at = _time(der, at)
    end, _ = _time(der, at)
    return Validity(start, end)


def _time(der: bytes, at: int) -> tuple[datetime.datetime, int]:
    tag, begin, end = _element(der, at)
    text = der[begin:end].decode("ascii")
    if tag == _SHORT_YEAR:
        text = ("19" if int(text[:2]) >= _PIVOT else "20") + text
    moment = datetime.datetime.strptime(text, "%Y%m%d%H%M%SZ")
    return moment.replace(tzinfo=datetime.UTC), end


def _element(der: bytes, at: int) -> tuple[int, int, int]:
    """Returns the tag of the element at a position, and the start and end of its content."""
    size, begin = der[at + 1], at + 2
    if size & 0x80:  # the number of bytes of the size
        begin += size & 0x7F
        size = int.from_bytes(der[at + 2 : begin])
    return der[at], begin, begin + size
