"""The expiry of certificates is read as `openssl` reads it, logged and exported as a metric."""

from __future__ import annotations

import datetime
import json
import logging
import re
import ssl
import subprocess
from pathlib import Path

import pytest

from serving.common.errors import InvalidArgument
from serving.config.files import Certificates
from serving.config.server_config import ServerConfig
from serving.observability.metrics import ServerMetrics
from serving.server import certificates
from serving.server.certificates import Validity, log_validity, report_certificates, validity
from serving.server.server import create_server
from tests.serving.certificates import (
    Certificate,
    make_authority,
    make_certificate,
    needs_openssl,
)

NOW = datetime.datetime(2026, 7, 1, tzinfo=datetime.UTC)
DAY = datetime.timedelta(days=1)


def _dates(certificate: Path) -> list[float]:
    """The first and the last second of the validity, as `openssl` reads it."""
    said = subprocess.run(
        ["openssl", "x509", "-in", certificate, "-noout", "-dates"],
        capture_output=True, check=True, text=True,
    ).stdout  # fmt: skip
    return [ssl.cert_time_to_seconds(date) for date in re.findall("=(.*)", said)]


def _texts(made: Certificate) -> tuple[bytes, bytes]:
    return made.key.read_bytes(), made.certificate.read_bytes()


@needs_openssl
@pytest.mark.parametrize("days", [-1, 2, 20_000], ids=["expired", "valid", "after 2050"])
def test_the_validity_equals_openssls(tmp_path: Path, days: int) -> None:
    authority = make_authority(tmp_path)
    made = make_certificate(tmp_path, authority, "localhost", days=days)
    _, certificate = _texts(made)
    chain = b"subject=/CN=localhost\n" + certificate + authority.certificate.read_bytes()
    found = validity(chain)
    assert [found.start.timestamp(), found.end.timestamp()] == _dates(made.certificate)


@pytest.mark.parametrize("pem", [b"", b"MIIB", b"abc", b"MDAwMDAw"])
def test_a_missing_certificate_is_named(pem: bytes) -> None:
    text = b"-----BEGIN CERTIFICATE-----\n" + pem + b"\n-----END CERTIFICATE-----\n"
    for one in (text, pem):
        with pytest.raises(InvalidArgument, match="`ssl_config_file`: Expected a certificate in"):
            report_certificates(ServerConfig("m"), Certificates(b"", one, b"", False), None)


@pytest.mark.parametrize(
    ("start", "end", "level", "words"),
    [
        (-9, -1, logging.ERROR, "expired on 2026-06-30 00:00:00+00:00"),
        (1, 9, logging.ERROR, "is not valid before 2026-07-02 00:00:00+00:00"),
        (-9, 29, logging.WARNING, "expires on 2026-07-30 00:00:00+00:00"),
        (-9, 31, None, ""),
    ],
)
def test_certificates_that_expire_are_logged(
    start: int, end: int, level: int | None, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    log_validity("ssl_config_file", Validity(NOW + start * DAY, NOW + end * DAY), NOW)
    assert [record.levelno for record in caplog.records] == ([] if level is None else [level])
    assert words in caplog.text


@needs_openssl
def test_a_server_reports_its_certificates(
    base_path: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = make_authority(tmp_path)
    expired = make_certificate(tmp_path, authority, "localhost", days=-1)
    client = make_certificate(tmp_path, authority, "proxy", client=True, days=90)
    key, certificate = _texts(expired)
    (tmp_path / "ssl").write_text(
        f"server_key: {json.dumps(key.decode())} server_cert: {json.dumps(certificate.decode())}"
    )
    server, _ = create_server(
        ServerConfig(str(base_path), port=0, ssl_config_file=str(tmp_path / "ssl"))
    )
    server.stop()
    (record,) = [one for one in caplog.records if one.name == certificates.__name__]
    assert record.levelno == logging.ERROR
    assert "The certificate of ssl_config_file expired on" in record.getMessage()
    metrics = ServerMetrics()
    proxy = ServerConfig(
        backend="grpcs://a:1", model_name="ctr", backend_tls_cert=str(client.certificate),
        backend_tls_key=str(client.key),
    )  # fmt: skip
    report_certificates(proxy, Certificates(key, certificate, b"", False), metrics)
    page = metrics.page().decode()
    for name, made in (("certificate", expired), ("backend_certificate", client)):
        (value,) = re.findall(f"^:recsys_attn:serving:{name}_expires_seconds (.+)$", page, re.M)
        assert float(value) == _dates(made.certificate)[1]
