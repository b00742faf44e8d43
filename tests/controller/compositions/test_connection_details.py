"""Connection details of legacy composite resources are written to their Secrets."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest

from kanister_py.controller.functions.settings import CompositionSettings
from kanister_py.core.kube.parts import status_of
from kanister_py.core.kube.resources import SECRETS
from kanister_py.ports.cluster import KubeObject
from tests.controller.compositions import databases as claims
from tests.controller.compositions.harness import Harness

TEMPLATE = """
apiVersion: v1
kind: ConfigMap
metadata:
  namespace: default
  annotations:
    gotemplating.fn.crossplane.io/composition-resource-name: store
    gotemplating.fn.crossplane.io/ready: "True"
data:
  colour: red
---
apiVersion: meta.gotemplating.fn.crossplane.io/v1alpha1
kind: CompositeConnectionDetails
data:
  password: {{ .observed.composite.resource.spec.region | b64enc }}
  hidden: {{ "x" | b64enc }}
"""


def composition() -> dict[str, Any]:
    obj = claims.composition("red")
    obj["spec"].pop("writeConnectionSecretsToNamespace")
    obj["spec"]["pipeline"][0]["input"]["inline"]["template"] = TEMPLATE
    return obj


def database(region: str = "eu") -> dict[str, Any]:
    return {
        "apiVersion": claims.API,
        "kind": "XDatabase",
        "metadata": {"name": "one"},
        "spec": {
            "region": region,
            "writeConnectionSecretToRef": {"namespace": "default", "name": "login"},
        },
    }


@pytest.fixture
def harness() -> Iterator[Harness]:
    running = Harness(CompositionSettings("kanister-py", uses_revisions=True))
    running.start()
    running.define(claims.definition(connectionSecretKeys=["password"]))
    running.apply(composition())
    yield running
    running.close()


def secret(harness: Harness) -> KubeObject:
    return harness.cluster.get(SECRETS, "login", namespace="default")


def one(harness: Harness) -> KubeObject:
    return harness.cluster.get(claims.COMPOSITES, "one")


def synced_message(harness: Harness) -> str:
    conditions = (one(harness).get("status") or {}).get("conditions") or ()
    return next(
        (
            str(condition.get("message", ""))
            for condition in conditions
            if condition["type"] == "Synced"
        ),
        "",
    )


def test_the_keys_that_the_definition_names_are_written_and_follow(harness: Harness) -> None:
    harness.apply(database())
    harness.until(lambda: secret(harness)["data"] == {"password": b64encode(b"eu").decode()})
    (owner,) = secret(harness)["metadata"]["ownerReferences"]
    assert owner["uid"] == one(harness)["metadata"]["uid"]
    harness.until(lambda: bool(status_of(one(harness)).get("connectionDetails")))
    assert "lastPublishedTime" in one(harness)["status"]["connectionDetails"]
    harness.until_idle()
    published = one(harness)["status"]["connectionDetails"]
    harness.writes.clear()
    annotated = one(harness)
    annotated["metadata"]["annotations"] = {"note": "x"}
    harness.cluster.replace(annotated)
    harness.until_idle()
    assert harness.writes == []
    assert one(harness)["status"]["connectionDetails"] == published
    harness.apply(database("us"))
    harness.until(lambda: secret(harness)["data"] == {"password": b64encode(b"us").decode()})


def test_a_deleted_secret_is_written_again(harness: Harness) -> None:
    harness.apply(database())
    harness.until(lambda: bool(secret(harness)))
    harness.until_idle()
    harness.cluster.delete(SECRETS, "login", namespace="default")
    annotated = one(harness)
    annotated["metadata"]["annotations"] = {"note": "x"}
    harness.cluster.replace(annotated)
    harness.until(lambda: bool(secret(harness)))


def test_a_secret_with_another_controller_is_unchanged_and_reported(harness: Harness) -> None:
    theirs = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": "login",
            "namespace": "default",
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "name": "x",
                    "uid": "y",
                    "controller": True,
                }
            ],
        },
        "data": {"password": "dGhlaXJz"},
    }
    harness.cluster.load([theirs])
    harness.apply(database())
    harness.until(lambda: "login" in synced_message(harness))
    assert secret(harness)["data"] == theirs["data"]
