"""Certificates: trust is never interrupted by rotation or by other programs."""

from __future__ import annotations

import base64
from datetime import timedelta

import pytest

from kanister_py.adapters.certificates_x509 import X509Certificates
from kanister_py.controller.machine.certificates import (
    Authority,
    CertificateKeeper,
)
from kanister_py.core.kube.certificates import KeyPair
from kanister_py.core.kube.resources import SECRETS
from kanister_py.embedded.cluster.cluster import MemoryCluster
from tests.fake_clock import FakeClock
from tests.raising import refused_as

DAY_SECONDS = 86_400.0
NAMES = ["fn.ns.svc"]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def certificates(clock: FakeClock) -> X509Certificates:
    return X509Certificates(clock)


@pytest.fixture
def cluster(clock: FakeClock) -> MemoryCluster:
    return MemoryCluster(clock=clock)


@pytest.fixture
def keeper(
    cluster: MemoryCluster, certificates: X509Certificates, clock: FakeClock
) -> CertificateKeeper:
    return CertificateKeeper(
        cluster,
        certificates,
        clock,
        life=timedelta(days=30),
        authority_life=timedelta(days=120),
        staging=timedelta(days=2),
    )


def _version(cluster: MemoryCluster, name: str) -> str:
    version: str = cluster.get(SECRETS, name, namespace="ns")["metadata"]["resourceVersion"]
    return version


def _trusts(certificates: X509Certificates, bundle: str, pair: KeyPair) -> bool:
    end = "-----END CERTIFICATE-----\n"
    trusted = [part + end for part in bundle.split(end) if part.strip()]
    return any(certificates.is_signed_by(pair.certificate, certificate) for certificate in trusted)


def test_over_a_year_both_sides_trust_each_other_every_day(
    keeper: CertificateKeeper, certificates: X509Certificates, clock: FakeClock
) -> None:
    authorities = set()
    last: tuple[Authority, KeyPair] | None = None
    for _day in range(365):
        authority = keeper.ensure_authority("ns", "root-ca")
        pair = keeper.ensure_certificate("ns", "fn-tls", NAMES, authority)
        facts = certificates.read(pair.certificate)
        assert facts is not None
        assert not facts.is_expired(clock.now())
        assert _trusts(certificates, authority.bundle, pair)
        if last is not None:
            # Clients with the Secrets of yesterday and of today.
            assert _trusts(certificates, last[0].bundle, pair)
            assert _trusts(certificates, authority.bundle, last[1])
        authorities.add(authority.signing.certificate)
        last = (authority, pair)
        clock.advance(DAY_SECONDS)
    assert len(authorities) > 2


def test_valid_certificates_are_not_written_again(
    keeper: CertificateKeeper, cluster: MemoryCluster
) -> None:
    keeper.ensure_certificate("ns", "fn-tls", NAMES, keeper.ensure_authority("ns", "root-ca"))
    before = (_version(cluster, "root-ca"), _version(cluster, "fn-tls"))
    keeper.ensure_certificate("ns", "fn-tls", NAMES, keeper.ensure_authority("ns", "root-ca"))
    assert (_version(cluster, "root-ca"), _version(cluster, "fn-tls")) == before


def test_an_authority_of_another_program_is_used_and_never_replaced(
    keeper: CertificateKeeper, cluster: MemoryCluster, certificates: X509Certificates
) -> None:
    theirs = certificates.new_authority("theirs", timedelta(days=3650))
    cluster.create(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"namespace": "ns", "name": "root-ca"},
            "data": {
                "tls.crt": base64.b64encode(theirs.certificate.encode()).decode(),
                "tls.key": base64.b64encode(theirs.key.encode()).decode(),
            },
        }
    )
    before = _version(cluster, "root-ca")
    assert keeper.ensure_authority("ns", "root-ca").signing == theirs
    assert _version(cluster, "root-ca") == before


def test_an_authority_without_its_key_is_an_error_and_is_not_replaced(
    keeper: CertificateKeeper, cluster: MemoryCluster, certificates: X509Certificates
) -> None:
    theirs = certificates.new_authority("theirs", timedelta(days=3650))
    cluster.create(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"namespace": "ns", "name": "root-ca"},
            "data": {"tls.crt": base64.b64encode(theirs.certificate.encode()).decode()},
        }
    )
    with refused_as("AuthorityUnusable"):
        keeper.ensure_authority("ns", "root-ca")
    assert set(cluster.get(SECRETS, "root-ca", namespace="ns")["data"]) == {"tls.crt"}


def test_a_new_dns_name_leads_to_a_new_certificate(
    keeper: CertificateKeeper, certificates: X509Certificates
) -> None:
    authority = keeper.ensure_authority("ns", "root-ca")
    first = keeper.ensure_certificate("ns", "fn-tls", NAMES, authority)
    second = keeper.ensure_certificate("ns", "fn-tls", [*NAMES, "fn.other.svc"], authority)
    assert first != second
    facts = certificates.read(second.certificate)
    assert facts is not None
    assert facts.names == {"fn.ns.svc", "fn.other.svc"}


def test_two_replicas_agree_on_one_authority(
    keeper: CertificateKeeper,
    cluster: MemoryCluster,
    certificates: X509Certificates,
    clock: FakeClock,
) -> None:
    other = CertificateKeeper(cluster, certificates, clock)
    assert keeper.ensure_authority("ns", "root-ca") == other.ensure_authority("ns", "root-ca")
