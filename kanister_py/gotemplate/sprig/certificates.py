"""Private keys and certificates."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable, Sequence
from datetime import UTC as PYTHON_UTC
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from kanister_py.gotemplate.durations import SECOND
from kanister_py.gotemplate.functions import Function, GoError, go_function
from kanister_py.gotemplate.limits import Context
from kanister_py.gotemplate.sprig.ciphers import not_allowed
from kanister_py.gotemplate.sprig.conversions import show
from kanister_py.gotemplate.sprig.encoding import decode_base64
from kanister_py.gotemplate.types import STRING, TYPES_BY_NAME, Field, struct_type
from kanister_py.gotemplate.values import Struct, Value, from_bytes, is_nil, to_bytes

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes

CERTIFICATE = struct_type("sprig.certificate", Field("Cert", STRING), Field("Key", STRING))
TYPES_BY_NAME["sprig.certificate"] = CERTIFICATE

_PEM = re.compile(
    r"^-----BEGIN ([^\n]*?)-----[ \t]*\r?\n(.*?)^-----END \1-----[ \t]*\r?$",
    re.DOTALL | re.MULTILINE,
)
_RSA_BITS = 2048
_RSA_BITS_OF_A_KEY = 4096


def _pem_block(text: str, complaint: str) -> tuple[str, bytes]:
    """Return the type and the bytes of a PEM block, or raise an error with `complaint`."""
    match = _PEM.search(text)
    if match is None:
        raise GoError(complaint)
    body = "".join(line for line in match.group(2).splitlines() if ":" not in line)
    try:
        return match.group(1), base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        raise GoError(complaint) from None


def _key_pem(key: Any, *, is_modern: bool = False) -> str:
    from cryptography.hazmat.primitives import serialization

    formats = serialization.PrivateFormat
    return from_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            formats.PKCS8 if is_modern else formats.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )


def _generate_key(kind: str, *, knows_ed25519: bool) -> str:
    from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa

    if kind in ("", "rsa"):
        return _key_pem(rsa.generate_private_key(65537, _RSA_BITS_OF_A_KEY))
    if kind == "dsa":
        return _key_pem(dsa.generate_private_key(2048))
    if kind == "ecdsa":
        return _key_pem(ec.generate_private_key(ec.SECP256R1()))
    if kind == "ed25519" and knows_ed25519:
        return _key_pem(ed25519.Ed25519PrivateKey.generate(), is_modern=True)
    return f"Unknown type {kind}"


@go_function("func(string) (string, error)")
def private_key_of_blueprints(kind: str) -> str:
    if kind not in ("rsa", "ecdsa", "ed25519"):
        raise not_allowed(f"genPrivateKey for {kind} key")
    return _generate_key(kind, knows_ed25519=False)


@go_function("func(string) string")
def private_key(kind: str) -> str:
    return _generate_key(kind, knows_ed25519=True)


def _addresses(values: Sequence[Value], context: Context) -> list[Any]:
    addresses = []
    for value in values:
        if type(value) is not str:
            raise GoError(f"error parsing ip: {show(value, context)} is not a string")
        try:
            addresses.append(ipaddress.ip_address(value))
        except ValueError:
            raise GoError(f"error parsing ip: {value}") from None
    return addresses


def _names(values: Sequence[Value], context: Context) -> list[str]:
    for value in values:
        if type(value) is not str:
            raise GoError(
                f"error processing alternate dns name: {show(value, context)} is not a string"
            )
    return list(values)


class _Request(NamedTuple):
    """Content of a certificate."""

    common_name: str
    addresses: Sequence[Value]
    names: Sequence[Value]
    days: int
    is_authority: bool = False


class _Issuer(NamedTuple):
    certificate: x509.Certificate
    key: CertificateIssuerPrivateKeyTypes


def _issue(
    context: Context, request: _Request, key: Any, issuer: _Issuer | None, *, is_modern: bool
) -> Struct:
    """Issue a certificate for `key`, signed by `issuer`, or self-signed without one."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ed25519

    addresses = _addresses([] if is_nil(request.addresses) else request.addresses, context)
    names = _names([] if is_nil(request.names) else request.names, context)
    start = datetime.fromtimestamp(context.effects.now().unix_nanoseconds // SECOND, PYTHON_UTC)
    subject = _subject(request.common_name)
    public = key.public_key()
    signing_key = issuer.key if issuer else key
    try:
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer.certificate.subject if issuer else subject)
            .public_key(public)
            .serial_number(int.from_bytes(context.effects.random_bytes(16), "big") | 1)
            .not_valid_before(start)
            .not_valid_after(start + timedelta(days=request.days))
        )
        for extension, is_critical in _extensions(request, addresses, names, public, issuer):
            builder = builder.add_extension(extension, critical=is_critical)
        algorithm = None if isinstance(signing_key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
        certificate = builder.sign(signing_key, algorithm)
    except (ValueError, TypeError, OverflowError) as error:
        raise GoError(f"error creating certificate: {error}") from error
    return Struct(
        CERTIFICATE,
        {
            "Cert": from_bytes(certificate.public_bytes(serialization.Encoding.PEM)),
            "Key": _key_pem(key, is_modern=is_modern),
        },
    )


def _subject(common_name: str) -> x509.Name:
    from cryptography import x509

    if not common_name:
        return x509.Name([])
    attribute = x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name, _validate=False)
    return x509.Name([attribute])


def _extensions(
    request: _Request, addresses: list[Any], names: list[str], public: Any, issuer: _Issuer | None
) -> list[tuple[Any, bool]]:
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID

    usage = x509.KeyUsage(
        digital_signature=True,
        key_encipherment=True,
        key_cert_sign=request.is_authority,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
    purposes = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    extensions: list[tuple[Any, bool]] = [
        (usage, True),
        (x509.ExtendedKeyUsage(purposes), False),
        (x509.BasicConstraints(ca=request.is_authority, path_length=None), True),
    ]
    if request.is_authority:
        extensions.append((x509.SubjectKeyIdentifier.from_public_key(public), False))
    if issuer is not None:
        try:
            theirs = issuer.certificate.extensions.get_extension_for_class(
                x509.SubjectKeyIdentifier
            )
        except x509.ExtensionNotFound:
            pass
        else:
            identifier = x509.AuthorityKeyIdentifier(theirs.value.digest, None, None)
            extensions.append((identifier, False))
    if addresses or names:
        alternatives = [x509.DNSName(name) for name in names]
        ours: list[Any] = [*alternatives, *(x509.IPAddress(address) for address in addresses)]
        extensions.append((x509.SubjectAlternativeName(ours), not request.common_name))
    return extensions


def _certificate_der(text: str) -> bytes:
    return _pem_block(text, "unable to decode certificate")[1]


def _load_certificate(der: bytes, where: str) -> x509.Certificate:
    from cryptography import x509

    try:
        return x509.load_der_x509_certificate(der)
    except ValueError as error:
        raise GoError(
            f"error parsing certificate: {where}.Bytes: x509: malformed certificate"
        ) from error


def _load_rsa_key(where: str, text: str) -> Any:
    """Load an RSA key in the PKCS #1 format; other formats are refused."""
    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography.hazmat.primitives.serialization import load_der_private_key

    _, der = _pem_block(text, "unable to decode key")
    complaint = f"error parsing prive key: {where}.Bytes: "
    try:
        key = load_der_private_key(der, None)
    except (ValueError, TypeError) as error:
        raise GoError(f"{complaint}{_ASN1}") from error
    if not isinstance(key, rsa.RSAPrivateKey):
        raise GoError(
            f"{complaint}x509: failed to parse private key (use ParsePKCS8PrivateKey instead "
            "for this key format)"
        )
    return key


_ASN1 = "asn1: structure error: tags don't match"


def _load_any_key(text: str) -> Any:
    """Load a key in any format that is named in its first line."""
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    kind, _ = _pem_block(text, "no PEM data in input")
    if kind != "PRIVATE KEY" and not kind.endswith(" PRIVATE KEY"):
        raise GoError(f"no private key data in PEM block of type {kind}")
    failures = {
        "PRIVATE KEY": "decoding PEM as PKCS#8: ",
        "RSA PRIVATE KEY": "parsing RSA private key from PEM: ",
        "EC PRIVATE KEY": "parsing EC private key from PEM: ",
        "DSA PRIVATE KEY": "parsing DSA private key from PEM: ",
    }
    if kind not in failures:
        raise GoError(f"invalid private key type {kind.removesuffix(' PRIVATE KEY')}")
    try:
        return load_pem_private_key(to_bytes(text), None)
    except (ValueError, TypeError) as error:
        raise GoError(f"{failures[kind]}{_ASN1}") from error


def _decoded(text: str, what: str) -> str:
    try:
        return from_bytes(decode_base64(text))
    except GoError as error:
        raise GoError(f"unable to decode base64 {what}") from error


def _build_custom(check_key: Callable[[str], object]) -> Function:
    """Build the function that checks a certificate and a key and returns them unchanged."""

    def build(certificate: str, key: str) -> Struct:
        certificate = _decoded(certificate, "certificate")
        key = _decoded(key, "private key")
        _load_certificate(_certificate_der(certificate), "decodedCert")
        check_key(key)
        return Struct(CERTIFICATE, {"Cert": certificate, "Key": key})

    return go_function("func(string, string) (sprig.certificate, error)")(build)


def _check_key(text: str) -> object:
    try:
        return _load_any_key(text)
    except GoError as error:
        raise GoError(f"error parsing private key: {error.text}") from error


def _issuer_of(authority: Struct, load_key: Callable[[str], Any]) -> _Issuer:
    certificate = _load_certificate(_certificate_der(authority["Cert"]), "decodedSignerCert")
    return _Issuer(certificate, load_key(authority["Key"]))


def _new_rsa_key() -> Any:
    from cryptography.hazmat.primitives.asymmetric import rsa

    return rsa.generate_private_key(65537, _RSA_BITS)


def _load_signed_key(text: str) -> tuple[Any, bool]:
    from cryptography.hazmat.primitives.asymmetric import ed25519

    try:
        key = _load_any_key(text)
    except GoError as error:
        raise GoError(f"parsing private key: {error.text}") from error
    return key, isinstance(key, ed25519.Ed25519PrivateKey)


def _certificate_function(
    *,
    is_authority: bool = False,
    load_signer: Callable[[str], Any] | None = None,
    has_key: bool = False,
) -> Function:
    """Build a function that issues a certificate.

    With `load_signer` it is signed with the key of an authority, and with `has_key` it is
    issued for a key that is passed, not for a new one.
    """
    params = ["string", *([] if is_authority else ["[]interface{}"] * 2), "int"]
    params += ["sprig.certificate"] if load_signer else []
    params += ["string"] if has_key else []

    def make(context: Context, common_name: str, *args: Any) -> Struct:
        remaining = list(args)
        addresses, names = ((), ()) if is_authority else (remaining.pop(0), remaining.pop(0))
        request = _Request(common_name, addresses, names, remaining.pop(0), is_authority)
        key, is_modern = _load_signed_key(remaining.pop()) if has_key else (None, False)
        issuer = _issuer_of(remaining.pop(), load_signer) if load_signer else None
        return _issue(context, request, key or _new_rsa_key(), issuer, is_modern=is_modern)

    signature = f"func({', '.join(params)}) (sprig.certificate, error)"
    return go_function(signature, context=True)(make)


OF_BLUEPRINTS: dict[str, Function] = {
    "buildCustomCert": _build_custom(partial(_load_rsa_key, "decodedKey")),
    "genCA": _certificate_function(is_authority=True),
    "genPrivateKey": private_key_of_blueprints,
    "genSelfSignedCert": _certificate_function(),
    "genSignedCert": _certificate_function(load_signer=partial(_load_rsa_key, "decodedSignerKey")),
}
NEWER: dict[str, Function] = {
    "genCAWithKey": _certificate_function(is_authority=True, has_key=True),
    "genSelfSignedCertWithKey": _certificate_function(has_key=True),
    "genSignedCertWithKey": _certificate_function(load_signer=_check_key, has_key=True),
}
OF_COMPOSITIONS: dict[str, Function] = {
    "buildCustomCert": _build_custom(_check_key),
    "genCA": _certificate_function(is_authority=True),
    "genPrivateKey": private_key,
    "genSelfSignedCert": _certificate_function(),
    "genSignedCert": _certificate_function(load_signer=_check_key),
}
