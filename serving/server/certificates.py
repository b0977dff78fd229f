"""How long the certificates of a server are valid, said when it starts and by metrics."""

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
from serving.observability.metrics import Metrics

_LOGGER = logging.getLogger(__name__)
_PEM = re.compile(
    rb"-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----(.+?)-----END (?:X509 |TRUSTED )?CERTIFICATE",
    re.DOTALL,
)
_VERSION, _SHORT_YEAR = 0xA0, 0x17  # tags: [0], and UTCTime, whose years have two digits
_PIVOT = 50  # of those years: from 1950 to 2049
_SOON = datetime.timedelta(days=30)


class Validity(NamedTuple):
    """The first and the last moment at which a certificate is valid."""

    start: datetime.datetime
    end: datetime.datetime


def validity(pem: bytes) -> Validity:
    """The validity of the first certificate of a chain, which is the one that is shown.

    Python's `ssl` tells that of authorities and of peers alone, so it is read here from the
    certificate's first fields (RFC 5280, 4.1).

    Raises:
        InvalidArgument: It holds no certificate.
    """
    try:
        found = _PEM.search(pem)
        return _read(base64.b64decode(found[1] if found else b""))
    except (IndexError, ValueError) as error:
        raise InvalidArgument("Expected a certificate in PEM. Received: none") from error


def tell_of_certificates(
    config: ServerConfig, certificates: Certificates | None, metrics: Metrics | None
) -> None:
    """Logs which certificates a server shows in vain, or soon will; metrics say when.

    Raises:
        ServingError: One of them is none; the message names the option.
    """
    shown: dict[str, tuple[str, bytes]] = {}
    if certificates is not None:
        shown["certificate"] = "ssl_config_file", certificates.certificate
    if config.backend_tls_cert:
        shown["backend_certificate"] = "backend_tls_cert", read_content(config.backend_tls_cert)
    for name, (option, pem) in shown.items():
        try:
            found = validity(pem)
        except InvalidArgument as error:
            raise InvalidArgument(f"`{option}`: {error}") from error
        tell(option, found, datetime.datetime.now(datetime.UTC))
        if metrics is not None:
            metrics.gauge(
                f"{name}_expires_seconds",
                f"When the certificate of {option} expires, in seconds since 1970.",
                found.end.timestamp,
            )


def tell(option: str, found: Validity, now: datetime.datetime) -> None:
    """Logs that the certificate of an option is not valid, or not for long."""
    start, end = found
    if end < now:
        _LOGGER.error("The certificate of %s expired on %s: it will be refused", option, end)
    elif start > now:
        _LOGGER.error(
            "The certificate of %s is not valid before %s: it will be refused", option, start
        )
    elif end < now + _SOON:
        _LOGGER.warning("The certificate of %s expires on %s", option, end)


def _read(der: bytes) -> Validity:
    _, at, _ = _element(der, 0)  # the certificate
    _, at, _ = _element(der, at)  # what of it is signed
    # Before the validity: version, which may be left out, serial number, signature, issuer.
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
    """The tag of what begins there, where its content begins, and where it ends."""
    size, begin = der[at + 1], at + 2
    if size & 0x80:  # so many bytes hold the size
        begin += size & 0x7F
        size = int.from_bytes(der[at + 2 : begin])
    return der[at], begin, begin + size
