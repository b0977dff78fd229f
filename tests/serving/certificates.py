"""Certificates made for a test by the `openssl` program, which the machine must have."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import grpc
import pytest

needs_openssl = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="no `openssl` program to make certificates with"
)


class Certificate(NamedTuple):
    """Paths of a certificate and of its private key, both PEM."""

    certificate: Path
    key: Path


def make_authority(folder: Path) -> Certificate:
    """An authority that signs for the others."""
    made = Certificate(folder / "authority.pem", folder / "authority.key")
    _openssl(
        "req", "-x509", *_new_key(made), "-days", "2", "-subj", "/CN=authority of the test",
        "-addext", "keyUsage=critical,keyCertSign,cRLSign", "-out", made.certificate,
    )  # fmt: skip
    return made


def make_certificate(
    folder: Path, authority: Certificate, name: str, client: bool = False, days: int = 2
) -> Certificate:
    """A certificate of a server (or client) of that name, signed by the authority.

    That of `localhost` holds its address too. It expires after so many days, from the start where
    they are below 0.
    """
    made = Certificate(folder / f"{name}.pem", folder / f"{name}.key")
    request, extensions = folder / f"{name}.csr", folder / f"{name}.ext"
    usage = "clientAuth" if client else "serverAuth"
    names = f"DNS:{name}" + (",IP:127.0.0.1" if name == "localhost" else "")
    extensions.write_text(f"subjectAltName={names}\nextendedKeyUsage={usage}\n", "utf-8")
    _openssl("req", *_new_key(made), "-subj", f"/CN={name}", "-out", request)
    _openssl(
        "x509", "-req", "-in", request, "-CA", authority.certificate, "-CAkey", authority.key,
        "-CAcreateserial", "-days", days, "-extfile", extensions,
        "-out", made.certificate,
    )  # fmt: skip
    return made


def server_credentials(
    own: Certificate, authority: Certificate, asks: bool = False
) -> grpc.ServerCredentials:
    """Credentials of a gRPC server, which may ask for the client's certificate."""
    return grpc.ssl_server_credentials(
        [(own.key.read_bytes(), own.certificate.read_bytes())],
        authority.certificate.read_bytes() if asks else None,
        asks,
    )


def _new_key(made: Certificate) -> list[object]:
    curve = "ec_paramgen_curve:prime256v1"
    return ["-newkey", "ec", "-pkeyopt", curve, "-nodes", "-keyout", made.key]


def _openssl(*arguments: object) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)
