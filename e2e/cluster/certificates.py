"""Certificates of a test cluster: its certificate authority and the certificates that it signs."""

from __future__ import annotations

import datetime as dt
import ipaddress
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_AGE: Final = dt.timedelta(days=2)
_SLACK: Final = dt.timedelta(hours=1)


class Certificate(NamedTuple):
    """A certificate and its key, as PEM files."""

    certificate: Path
    key: Path


class CertificateAuthority:
    """Certificate authority of one cluster. Writes certificates and keys into one folder."""

    def __init__(self, folder: Path, name: str = "kanister-py-e2e") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        key_usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        certificate = (
            _builder(self._name, self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(key_usage, critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False
            )
            .sign(self._key, hashes.SHA256())
        )
        self.pair = _write(folder, "ca", certificate, self._key)

    @property
    def certificate(self) -> Path:
        """Path of the certificate that clients trust."""
        return self.pair.certificate

    def sign_server(self, file_name: str, names: Sequence[str]) -> Certificate:
        """Create the certificate of a server for the given names and addresses."""
        return self._sign(file_name, file_name, (), names, ExtendedKeyUsageOID.SERVER_AUTH)

    def sign_client(self, file_name: str, user: str, groups: Sequence[str] = ()) -> Certificate:
        """Create the certificate with which a user authenticates to the API server."""
        return self._sign(file_name, user, groups, (), ExtendedKeyUsageOID.CLIENT_AUTH)

    def _sign(
        self,
        file_name: str,
        common_name: str,
        groups: Sequence[str],
        names: Sequence[str],
        usage: x509.ObjectIdentifier,
    ) -> Certificate:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name(
            [
                *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups),
                x509.NameAttribute(NameOID.COMMON_NAME, common_name),
            ]
        )
        builder = (
            _builder(subject, self._name, key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )
        if names:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False
            )
        return _write(self._folder, file_name, builder.sign(self._key, hashes.SHA256()), key)


def write_signing_key(folder: Path) -> Certificate:
    """Create the pair of keys that signs and verifies tokens of ServiceAccounts."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = folder / "tokens.pub"
    public.write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    return Certificate(public, _write_key(folder, "tokens", key))


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = dt.datetime.fromtimestamp(time.time(), dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SLACK)
        .not_valid_after(now + _AGE)
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _write(
    folder: Path, name: str, made: x509.Certificate, key: ec.EllipticCurvePrivateKey
) -> Certificate:
    path = folder / f"{name}.crt"
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    return Certificate(path, _write_key(folder, name, key))


def _write_key(folder: Path, name: str, key: ec.EllipticCurvePrivateKey) -> Path:
    path = folder / f"{name}.key"
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return path
