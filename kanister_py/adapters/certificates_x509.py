"""X.509 certificates, based on the library `cryptography`."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kanister_py.core.kube.certificates import CertificateFacts, KeyPair
from kanister_py.ports.clock import Clock

# Tolerates clocks of peers that are slightly slow, and short lifetimes.
_LEEWAY: Final = timedelta(minutes=5)
_LEEWAY_OF_LIFE: Final = 10


class X509Certificates:
    """X.509 certificates with keys on the curve P-256."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def new_authority(self, name: str, life: timedelta) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _name_of(name)
        builder = (
            self._builder(subject, subject, key.public_key(), life)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
        )
        return _signed(builder, key, key)

    def issue(
        self, authority: KeyPair, names: Sequence[str], life: timedelta, *, is_client: bool = False
    ) -> KeyPair:
        signer = x509.load_pem_x509_certificate(authority.certificate.encode())
        signing_key = serialization.load_pem_private_key(authority.key.encode(), None)
        key = ec.generate_private_key(ec.SECP256R1())
        purpose = ExtendedKeyUsageOID.CLIENT_AUTH if is_client else ExtendedKeyUsageOID.SERVER_AUTH
        builder = (
            self._builder(_name_of(names[0]), signer.subject, key.public_key(), life)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(
                x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()),  # type: ignore[arg-type]  # keys of authorities can sign
                critical=False,
            )
        )
        return _signed(builder, key, signing_key)

    def read(self, certificate: str) -> CertificateFacts | None:
        try:
            loaded = x509.load_pem_x509_certificate(certificate.encode())
        except ValueError:
            return None
        return CertificateFacts(
            loaded.subject.rfc4514_string(),
            loaded.issuer.rfc4514_string(),
            loaded.not_valid_before_utc,
            loaded.not_valid_after_utc,
            _names_in(loaded),
            _is_authority(loaded),
            loaded.fingerprint(hashes.SHA256()).hex(),
        )

    def is_signed_by(self, certificate: str, authority: str) -> bool:
        try:
            loaded = x509.load_pem_x509_certificate(certificate.encode())
            loaded.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.encode()))
        except (ValueError, TypeError, InvalidSignature):
            return False
        return True

    def fits(self, pair: KeyPair) -> bool:
        try:
            loaded = x509.load_pem_x509_certificate(pair.certificate.encode())
            key = serialization.load_pem_private_key(pair.key.encode(), None)
        except (ValueError, TypeError):
            return False
        return bool(loaded.public_key() == key.public_key())

    def _builder(
        self, subject: x509.Name, issuer: x509.Name, key: Any, life: timedelta
    ) -> x509.CertificateBuilder:
        now = self._clock.now()
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - min(_LEEWAY, life / _LEEWAY_OF_LIFE))
            .not_valid_after(now + life)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        )


def _name_of(text: str) -> x509.Name:
    # A common name is limited to 64 characters; clients check the alternative names.
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _general_name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _signed(builder: x509.CertificateBuilder, key: Any, signing_key: Any) -> KeyPair:
    certificate = builder.sign(signing_key, hashes.SHA256())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return KeyPair(certificate.public_bytes(serialization.Encoding.PEM).decode(), private.decode())


def _names_in(certificate: x509.Certificate) -> frozenset[str]:
    try:
        alternative_names = certificate.extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        ).value
    except (x509.ExtensionNotFound, ValueError):
        return frozenset()
    names = alternative_names.get_values_for_type(x509.DNSName)
    return frozenset([*names, *map(str, alternative_names.get_values_for_type(x509.IPAddress))])


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        return bool(certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca)
    except (x509.ExtensionNotFound, ValueError):
        return False
