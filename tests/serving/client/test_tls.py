"""Encryption, certificates and tokens, beside a bare gRPC server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from serving.client import AsyncClient, Client, ClientOptions, Tls
from serving.common.errors import InvalidArgument, Unavailable
from tests.serving.certificates import (
    Certificate,
    make_authority,
    make_certificate,
    needs_openssl,
    server_credentials,
)
from tests.serving.client.conftest import ONCE, Connect, StartStub
from tests.serving.client.stub_server import Stub

SCORES = [2.0, 3.0, 5.0]


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def identity(authority: Certificate) -> Certificate:
    return make_certificate(authority.key.parent, authority, "reader", client=True)


@pytest.fixture
def start_secure(start_stub: StartStub, authority: Certificate) -> Any:
    """Starts a stub with a certificate of that name, which may ask for the caller's."""

    def start(name: str = "localhost", asks: bool = False) -> Stub:
        made = make_certificate(authority.key.parent, authority, name)
        return start_stub(0, server_credentials(made, authority, asks))

    return start


@needs_openssl
def test_trusted_authority(connect: Connect, start_secure: Any, authority: Certificate) -> None:
    stub, other, ca = start_secure(), start_secure(), authority.certificate
    for tls in (ca, str(ca), ca.read_bytes(), Tls(ca=ca)):
        assert connect(f"localhost:{stub.port}", tls=tls).predict() == SCORES
    ports_of_one_host = [f"localhost:{stub.port}", f"localhost:{other.port}"]
    assert connect(ports_of_one_host, tls=ca).predict() == SCORES
    stranger = connect(stub.address, tls=True, options=ONCE)
    with pytest.raises(Unavailable, match=r"Trust its authority .*CERTIFICATE_VERIFY_FAILED"):
        stranger.predict()


@needs_openssl
def test_name_in_the_certificate(
    connect: Connect, start_secure: Any, authority: Certificate
) -> None:
    stubs, ca = [start_secure("ctr.example"), start_secure("ctr.example")], authority.certificate
    wrong = connect(stubs[0].address, tls=ca, options=ONCE)
    with pytest.raises(Unavailable, match=r"Tls\(server_name="):
        wrong.predict()
    named = Tls(ca=ca, server_name="ctr.example")
    addresses = [f"localhost:{stubs[0].port}", f"127.0.0.1:{stubs[1].port}"]
    right = connect(addresses, tls=named)
    assert right.predict() == SCORES
    with pytest.raises(InvalidArgument, match=r"TLS to several hosts .* give `tls.server_name`"):
        connect(addresses, tls=ca)


@needs_openssl
def test_client_certificate(
    connect: Connect, start_secure: Any, authority: Certificate, identity: Certificate
) -> None:
    stub, ca = start_secure(asks=True), authority.certificate
    known = Tls(ca, identity.certificate, identity.key.read_bytes())
    assert connect(f"localhost:{stub.port}", tls=known).predict() == SCORES
    nobody = connect(stub.address, tls=Tls(ca, server_name="localhost"), options=ONCE, timeout=20)
    with pytest.raises(Unavailable, match=r"asks for a (client's )?certificate"):
        nobody.predict()
    mixed_up = Tls(ca, identity.certificate, authority.key, server_name="localhost")
    with pytest.raises(Unavailable, match="Check that `tls` holds certificates"):
        connect(stub.address, tls=mixed_up, options=ONCE).predict()


@needs_openssl
def test_only_one_side_has_tls(
    connect: Connect, start_stub: StartStub, start_secure: Any, authority: Certificate
) -> None:
    plain, secure = start_stub(), start_secure()
    with pytest.raises(Unavailable, match="The server speaks no TLS there"):
        connect(plain.address, tls=authority.certificate, options=ONCE).predict()
    with pytest.raises(Unavailable, match="Check whether the server wants TLS: set `tls`"):
        connect(secure.address, options=ONCE).predict()


@pytest.mark.parametrize("tls", [False, pytest.param(True, marks=needs_openssl)])
def test_every_call_carries_the_token(
    connect: Connect, start_stub: StartStub, request: pytest.FixtureRequest, tls: bool
) -> None:
    stub = request.getfixturevalue("start_secure")() if tls else start_stub()
    ca = request.getfixturevalue("authority").certificate if tls else False
    fresh = iter("ab")
    for token in ("s3cret", lambda: next(fresh)):
        handle = connect(f"localhost:{stub.port}", token=token, tls=ca)
        assert "s3cret" not in repr(handle.client)
        handle.predict()
        handle.predict()
    received = [seen.metadata["authorization"] for seen in stub.seen]
    assert received == ["Bearer s3cret", "Bearer s3cret", "Bearer a", "Bearer b"]


@pytest.mark.parametrize(
    ("addresses", "is_local"),
    [
        ("localhost:8500", True),
        ("127.0.0.2:8500", True),
        ("[::1]:8500", True),
        ("unix:/run/ctr.sock", True),
        ("dns:///localhost:8500", True),
        (["localhost:1", "127.0.0.1:2"], True),
        ("ctr:8500", False),
        ("dns:///ctr:8500", False),
        ("dns://127.0.0.1/ctr:8500", False),
        ("localhost.example:8500", False),
        ("ipv4:127.0.0.1:1,10.0.0.1:2", False),
        (["localhost:1", "10.0.0.1:2"], False),
        ("xds:///localhost:8500", False),
    ],
)
def test_token_never_travels_in_plaintext(addresses: Any, is_local: bool) -> None:
    if not is_local:
        with pytest.raises(InvalidArgument, match="in plaintext") as raised:
            AsyncClient(addresses, token="s3cret")
        assert "s3cret" not in str(raised.value)
    options = ClientOptions(allow_insecure_token=not is_local)
    with Client(addresses, token="s3cret", options=options):
        pass


@pytest.mark.parametrize("token", ["", "two\nlines", "ünsafe", b"bytes", lambda: None])
def test_invalid_token(connect: Connect, token: Any) -> None:
    with pytest.raises(InvalidArgument, match="`token` must be printable ASCII"):
        connect("localhost:1", token=token).predict()


def test_invalid_certificate(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("none", encoding="utf-8")
    for tls, words in (
        (tmp_path / "absent.pem", "Cannot read `tls.ca` .*absent.pem: No such file"),
        (tmp_path / "ca.pem", r"`tls.ca` must be PEM .*ca\.pem"),
        (b"none", "`tls.ca` must be PEM .* bytes"),
        (Tls(certificate=b"-----BEGIN CERTIFICATE"), "`tls.certificate` needs `tls.key` too"),
        (Tls(key=b"-----BEGIN KEY"), "`tls.key` needs `tls.certificate` too"),
    ):
        with pytest.raises(InvalidArgument, match=words):
            Client("localhost:1", tls=tls)
