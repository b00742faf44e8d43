"""Support for tests of the data functions: Profiles of a real store, claims and pods."""

from __future__ import annotations

from typing import Any

from kanister_py.core.kube.locations import Location
from kanister_py.core.templates.facts import ActionFacts, KeyPair, ResolvedProfile
from kanister_py.wiring import object_stores
from tests.functions.blueprint.conftest import Harness


def facts_for(location: Location, **more: Any) -> ActionFacts:
    place = {
        "type": str(location.kind),
        "bucket": location.bucket,
        "endpoint": location.endpoint,
        "region": location.region,
        "prefix": location.prefix,
    }
    pair = KeyPair(location.credential.id, location.credential.secret)
    profile = ResolvedProfile(place, "keyPair", key_pair=pair)
    return ActionFacts(time="2026-01-01T00:00:00Z", profile=profile, **more)


def keys(location: Location, prefix: str) -> list[str]:
    return [obj.key for obj in object_stores().open(location).list(prefix)]


def claim(harness: Harness, name: str) -> None:
    harness.cluster.create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Mi"}},
            },
        }
    )


def in_pod(harness: Harness, pod: str, script: str) -> bytes:
    with harness.cluster.exec(pod, ["sh", "-c", script], namespace="default") as session:
        output = b"".join(chunk.data for chunk in session)
        assert session.exit_code == 0, output
    return output


def mounted(harness: Harness, script: str) -> bytes:
    """Run a script in a pod that mounts the volume."""
    if "user" not in {pod["metadata"]["name"] for pod in harness.pods()}:
        harness.cluster.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "user", "namespace": "default"},
                "spec": {
                    "containers": [
                        {
                            "name": "main",
                            "image": "busybox",
                            "command": ["sleep", "600"],
                            "volumeMounts": [{"name": "v", "mountPath": "/v"}],
                        }
                    ],
                    "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
                },
            }
        )
        harness.seen_pod(
            lambda pod: (
                pod["metadata"]["name"] == "user"
                and (pod.get("status") or {}).get("phase") == "Running"
            )
        )
    return in_pod(harness, "user", script)
