"""Invalid certificates: the error is one sentence that names the option."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from serving.common.errors import InvalidArgument
from serving.config.files import Certificates
from serving.rpc.security import credentials
from tests.serving.certificates import make_authority, make_certificate, needs_openssl

_NOT_A_KEY = "`server_key` must be the key of `server_cert`"


@needs_openssl
def test_invalid_certificates_are_rejected(tmp_path: Path) -> None:
    authority = make_authority(tmp_path)
    own, other = (make_certificate(tmp_path, authority, name) for name in ("localhost", "other"))
    encrypted = subprocess.run(
        ["openssl", "pkcs8", "-topk8", "-in", own.key, "-passout", "pass:x"],
        capture_output=True, check=True,
    ).stdout  # fmt: skip
    key, certificate = own.key.read_bytes(), own.certificate.read_bytes()
    broken = b"-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n"
    credentials(Certificates(key, certificate, authority.certificate.read_bytes(), True))
    for received, words in (
        ((other.key.read_bytes(), certificate, b""), f"{_NOT_A_KEY}.* KEY_VALUES_MISMATCH"),
        ((key, broken, b""), _NOT_A_KEY),
        ((encrypted, certificate, b""), f"{_NOT_A_KEY}.*not encrypted"),
        ((key, certificate, b"authority.pem"), "`custom_ca` must hold certificates in PEM"),
    ):
        with pytest.raises(InvalidArgument, match=words):
            credentials(Certificates(*received, client_verify=False))
