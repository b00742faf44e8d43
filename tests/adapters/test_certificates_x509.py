"""Certificates: trusted by the right peers only."""

from __future__ import annotations

import socket
import ssl
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from kanister_py.adapters.certificates_x509 import X509Certificates
from kanister_py.adapters.clock_system import SystemClock
from kanister_py.core.kube.certificates import KeyPair

YEAR = timedelta(days=365)


@pytest.fixture(scope="module")
def certificates() -> X509Certificates:
    return X509Certificates(SystemClock())


@pytest.fixture(scope="module")
def authority(certificates: X509Certificates) -> KeyPair:
    return certificates.new_authority("kanister-py", 10 * YEAR)


def _write(folder: Path, name: str, pair: KeyPair) -> tuple[str, str]:
    (folder / f"{name}.crt").write_text(pair.certificate)
    (folder / f"{name}.key").write_text(pair.key)
    return str(folder / f"{name}.crt"), str(folder / f"{name}.key")


def _talk(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> str:
    """Connect a client to a server over TLS, and return what the client received."""
    ours, theirs = socket.socketpair()

    def serve() -> None:
        try:
            with server.wrap_socket(theirs, server_side=True) as secured:
                secured.sendall(secured.recv(5))
        except OSError:
            theirs.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with client.wrap_socket(ours, server_hostname=host) as secured:
            secured.sendall(b"hello")
            return secured.recv(5).decode()
    except ssl.SSLError as error:
        return f"refused: {error.reason}"
    finally:
        ours.close()
        thread.join()


@pytest.mark.parametrize("host", ["fn-1.ns.svc", "127.0.0.1"])
def test_server_and_client_of_one_authority_trust_each_other(
    certificates: X509Certificates, authority: KeyPair, tmp_path: Path, host: str
) -> None:
    names = ["fn-1.ns.svc", "127.0.0.1"]
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(*_write(tmp_path, "server", certificates.issue(authority, names, YEAR)))
    server.load_verify_locations(cadata=authority.certificate)
    server.verify_mode = ssl.CERT_REQUIRED
    client = ssl.create_default_context(cadata=authority.certificate)
    mine = certificates.issue(authority, ["engine"], YEAR, is_client=True)
    client.load_cert_chain(*_write(tmp_path, "client", mine))
    assert _talk(server, client, host) == "hello"


def test_server_of_another_authority_or_name_is_rejected(
    certificates: X509Certificates, authority: KeyPair, tmp_path: Path
) -> None:
    other = certificates.new_authority("other", YEAR)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(*_write(tmp_path, "server", certificates.issue(other, ["fn"], YEAR)))
    for trusted, host in ((authority, "fn"), (other, "another")):
        client = ssl.create_default_context(cadata=trusted.certificate)
        assert _talk(server, client, host).startswith("refused")


def test_certificate_is_parsed(certificates: X509Certificates, authority: KeyPair) -> None:
    pair = certificates.issue(authority, ["fn.ns", "10.0.0.1"], YEAR)
    facts = certificates.read(pair.certificate)
    assert facts is not None
    assert facts.names == {"fn.ns", "10.0.0.1"}
    assert not facts.is_authority
    assert certificates.is_signed_by(pair.certificate, authority.certificate)
    assert certificates.fits(pair)
    assert not certificates.fits(KeyPair(pair.certificate, authority.key))
    assert not certificates.is_signed_by(
        pair.certificate, certificates.new_authority("other", YEAR).certificate
    )


def test_short_lived_certificate_is_not_due_immediately(
    certificates: X509Certificates, authority: KeyPair
) -> None:
    clock = SystemClock()
    facts = certificates.read(
        certificates.issue(authority, ["a"], timedelta(minutes=1)).certificate
    )
    assert facts is not None
    assert not facts.is_due(clock.now())


@pytest.mark.parametrize("text", ["", "no certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n"])
def test_invalid_certificate_is_none(certificates: X509Certificates, text: str) -> None:
    assert certificates.read(text) is None
    assert not certificates.is_signed_by(text, text)
    assert not certificates.fits(KeyPair(text, text))
