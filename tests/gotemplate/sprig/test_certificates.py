"""Certificates contain the requested fields and match their keys."""

from __future__ import annotations

import ipaddress
import json
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from kanister_py.gotemplate.functions import FunctionTable
from kanister_py.gotemplate.sprig import BLUEPRINT_FUNCTIONS, GO_TEMPLATING_FUNCTIONS
from tests.gotemplate.oracle_record import render

NOW = "2024-05-06T07:08:09Z"
TABLES = pytest.mark.parametrize(
    "functions",
    [
        pytest.param(BLUEPRINT_FUNCTIONS, id="in a blueprint"),
        pytest.param(GO_TEMPLATING_FUNCTIONS, id="in a composition"),
    ],
)
CHAIN = """\
{{- $ca := genCA "our-ca" 365 -}}
{{- $cert := genSignedCert "db.app.svc" (list "10.0.0.1" "::1") (list "db" "db.app") 30 $ca -}}
{{- list $ca.Cert $ca.Key $cert.Cert $cert.Key | toJson -}}
"""


@TABLES
def test_a_signed_certificate_is_verified_by_its_authority(functions: FunctionTable) -> None:
    ca_pem, _, cert_pem, key_pem = json.loads(render(CHAIN, "map", functions, now=NOW))
    authority = x509.load_pem_x509_certificate(ca_pem.encode())
    certificate = x509.load_pem_x509_certificate(cert_pem.encode())
    key = load_pem_private_key(key_pem.encode(), None)
    assert isinstance(key, rsa.RSAPrivateKey)
    certificate.verify_directly_issued_by(authority)
    assert certificate.public_key() == key.public_key()
    start = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)
    assert certificate.not_valid_before_utc == start
    assert certificate.not_valid_after_utc == start + timedelta(days=30)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["db", "db.app"]
    assert names.get_values_for_type(x509.IPAddress) == [
        ipaddress.ip_address("10.0.0.1"),
        ipaddress.ip_address("::1"),
    ]


@TABLES
def test_only_an_authority_may_sign(functions: FunctionTable) -> None:
    template = '{{ list (genCA "a" 1).Cert (genSelfSignedCert "b" nil nil 1).Cert | toJson }}'
    certificates = [
        x509.load_pem_x509_certificate(pem.encode()).extensions
        for pem in json.loads(render(template, "map", functions, now=NOW))
    ]
    assert [
        issued.get_extension_for_class(x509.BasicConstraints).value.ca for issued in certificates
    ] == [
        True,
        False,
    ]
    usages = [issued.get_extension_for_class(x509.KeyUsage).value for issued in certificates]
    assert [usage.key_cert_sign for usage in usages] == [True, False]


@TABLES
def test_a_custom_certificate_is_returned_unchanged(functions: FunctionTable) -> None:
    template = (
        '{{ $c := genSelfSignedCert "x" nil nil 1 }}'
        "{{ $own := buildCustomCert ($c.Cert | b64enc) ($c.Key | b64enc) }}"
        "{{ eq $own.Cert $c.Cert }} {{ eq $own.Key $c.Key }}"
    )
    assert render(template, "map", functions, now=NOW) == "true true"


def test_an_elliptic_key_uses_the_curve_p256() -> None:
    pem = render('{{ genPrivateKey "ecdsa" }}', "map", BLUEPRINT_FUNCTIONS)
    key = load_pem_private_key(pem.encode(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert key.curve.name == "secp256r1"
