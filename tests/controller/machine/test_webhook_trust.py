"""Webhook trust, through renewals and restarts."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta

import pytest

from kanister_py.adapters.certificates_x509 import X509Certificates
from kanister_py.controller.machine.certificates import CertificateKeeper
from kanister_py.controller.machine.webhook_trust import (
    CONFIGURATIONS,
    WebhookSettings,
    WebhookTrust,
)
from kanister_py.core.kube.certificates import KeyPair
from kanister_py.core.kube.resources import SECRETS
from kanister_py.embedded.cluster.cluster import MemoryCluster
from tests.fake_clock import FakeClock

LIFE = timedelta(days=90)
SETTINGS = WebhookSettings("kanister", ("localhost",))
WITHOUT_WEBHOOK = SETTINGS._replace(configuration="", secret="endpoint-tls")


def configuration(cluster: MemoryCluster) -> None:
    client = {"service": {"name": "w", "namespace": "kanister", "path": "/validate"}}
    cluster.create(
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "kanister-py"},
            "webhooks": [
                {"name": "a.io", "clientConfig": client},
                {"name": "b.io", "clientConfig": client},
            ],
        }
    )


def bundles(cluster: MemoryCluster) -> set[str]:
    stored = cluster.get(CONFIGURATIONS, "kanister-py")
    return {
        base64.b64decode(webhook["clientConfig"].get("caBundle", "")).decode()
        for webhook in stored["webhooks"]
    }


class Replica:
    """The webhook of one replica of the controller."""

    def __init__(
        self, cluster: MemoryCluster, clock: FakeClock, settings: WebhookSettings = SETTINGS
    ) -> None:
        self.used: list[KeyPair] = []
        self.bundles: list[set[str]] = []
        self._cluster = cluster
        self._certificates = X509Certificates(clock)
        keeper = CertificateKeeper(cluster, self._certificates, clock, life=LIFE)
        self.trust = WebhookTrust(cluster, keeper, clock, settings, self._use)

    def _use(self, pair: KeyPair) -> None:
        self.used.append(pair)
        self.bundles.append(bundles(self._cluster))


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(datetime(2026, 1, 1, tzinfo=UTC))


@pytest.fixture
def cluster(clock: FakeClock) -> MemoryCluster:
    memory_cluster = MemoryCluster(clock=clock)
    memory_cluster.create(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kanister"}}
    )
    return memory_cluster


def test_every_webhook_entry_gets_the_bundle(cluster: MemoryCluster, clock: FakeClock) -> None:
    configuration(cluster)
    replica = Replica(cluster, clock)
    assert replica.trust.check()
    replica.trust.renew()
    (bundle,) = bundles(cluster)
    assert "BEGIN CERTIFICATE" in bundle
    assert replica.trust.check() == ""


def test_a_second_run_changes_nothing(cluster: MemoryCluster, clock: FakeClock) -> None:
    configuration(cluster)
    replica = Replica(cluster, clock)
    replica.trust.renew()
    before = (cluster.get(CONFIGURATIONS, "kanister-py"), cluster.list(SECRETS).items)
    replica.trust.renew()
    assert (cluster.get(CONFIGURATIONS, "kanister-py"), cluster.list(SECRETS).items) == before
    assert len(replica.used) == 1


def test_all_replicas_use_one_certificate(cluster: MemoryCluster, clock: FakeClock) -> None:
    configuration(cluster)
    one, other = Replica(cluster, clock), Replica(cluster, clock)
    one.trust.renew()
    other.trust.renew()
    assert one.used == other.used


def test_a_bundle_that_an_upgrade_removed_is_restored(
    cluster: MemoryCluster, clock: FakeClock
) -> None:
    configuration(cluster)
    replica = Replica(cluster, clock)
    replica.trust.renew()
    expected = bundles(cluster)
    cluster.delete(CONFIGURATIONS, "kanister-py")
    configuration(cluster)
    replica.trust.renew()
    assert bundles(cluster) == expected


def test_over_twelve_years_every_used_certificate_is_trusted(
    cluster: MemoryCluster, clock: FakeClock
) -> None:
    """In this time the authority itself expires and is replaced."""
    configuration(cluster)
    replica = Replica(cluster, clock)
    certificates = X509Certificates(clock)
    for _ in range(12 * 365 // 10):
        replica.trust.renew()
        facts = certificates.read(replica.used[-1].certificate)
        assert facts is not None
        assert not facts.is_expired(clock.now())
        clock.advance(timedelta(days=10).total_seconds())
    assert len(replica.used) > 20
    authorities = set()
    for pair, expected_bundle in zip(replica.used, replica.bundles, strict=True):
        (bundle,) = expected_bundle
        signers = [
            part
            for part in bundle.split("-----END CERTIFICATE-----\n")
            if part
            and certificates.is_signed_by(pair.certificate, f"{part}-----END CERTIFICATE-----\n")
        ]
        assert len(signers) == 1
        authorities.add(signers[0])
    assert len(authorities) == 2


def test_a_process_without_webhook_has_its_own_certificate(
    cluster: MemoryCluster, clock: FakeClock
) -> None:
    configuration(cluster)
    Replica(cluster, clock, WITHOUT_WEBHOOK).trust.renew()
    assert bundles(cluster) == {""}
    names = {secret["metadata"]["name"] for secret in cluster.list(SECRETS).items}
    assert names == {"endpoint-tls", "endpoint-tls-authority"}
