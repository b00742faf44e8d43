"""Parameters of an action on a StatefulSet."""

from __future__ import annotations

from base64 import b64encode
from datetime import UTC, datetime
from typing import Any

import pytest

from kanister_py.core.templates.facts import ActionFacts, KeyPair, ResolvedProfile, Workload
from kanister_py.core.templates.params import Params
from kanister_py.gotemplate.effects import Effects
from kanister_py.gotemplate.times import from_datetime


def secret(name: str, **data: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": "app", "labels": {"tier": "db"}},
        "type": "Opaque",
        "data": {key: b64encode(value.encode()).decode() for key, value in data.items()},
    }


@pytest.fixture
def facts() -> ActionFacts:
    return ActionFacts(
        time="2024-05-06T07:08:09.123456789Z",
        object={
            "metadata": {"name": "demo", "labels": {"app": "demo"}},
            "spec": {"replicas": 2, "paused": None, "ratio": 0.5, "ports": [80, 443]},
        },
        stateful_set=Workload(
            name="demo",
            namespace="app",
            pods=("demo-0", "demo-1"),
            containers=(("main", "side"), ("main", "side")),
            persistent_volume_claims={"demo-0": {"data-demo-0": "/data"}},
        ),
        artifacts={"dump": {"keyValue": {"path": "backups/1"}}},
        config_maps={"settings": {"metadata": {"name": "settings"}, "data": {"mode": "fast"}}},
        secrets={"login": secret("login", user="admin", password="pa'ss<word>")},
        profile=ResolvedProfile(
            location={
                "type": "s3Compliant",
                "bucket": "b",
                "endpoint": "http://s3:9000",
                "prefix": "p",
                "region": "r",
            },
            credential_type="keyPair",
            key_pair=KeyPair("AK<&>ID", "s3cr'et"),
        ),
        options={"image": "busybox", "items": "of an option"},
        pod_labels={"l": "1"},
    )


@pytest.fixture
def params(facts: ActionFacts) -> Params:
    template_params = Params(facts)
    template_params.enter_phase("dump", {"s": secret("s", key="of the phase")})
    template_params.leave_phase("dump", {"path": "backups/2", "size": 3})
    return template_params


@pytest.fixture
def effects() -> Effects:
    now = from_datetime(datetime(2026, 11, 18, 12, 0, tzinfo=UTC))
    return Effects(now=lambda: now, random_bytes=lambda size: bytes(range(size)))
