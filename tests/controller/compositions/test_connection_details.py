"""Connection details of legacy composite resources get where they are wanted."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest

from kanister_py.controller.functions.settings import CompositionSettings
from kanister_py.core.kube.parts import status_of
from kanister_py.core.kube.resources import SECRETS
from kanister_py.ports.cluster import KubeObject
from tests.controller.compositions import test_claims as claims
from tests.controller.compositions.test_kinds import World

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
    made = claims.composition("red")
    made["spec"].pop("writeConnectionSecretsToNamespace")
    made["spec"]["pipeline"][0]["input"]["inline"]["template"] = TEMPLATE
    return made


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
def world() -> Iterator[World]:
    made = World(CompositionSettings("kanister-py", uses_revisions=True))
    made.start()
    made.define(claims.definition(connectionSecretKeys=["password"]))
    made.say(composition())
    yield made
    made.close()


def secret(world: World) -> KubeObject:
    return world.cluster.get(SECRETS, "login", namespace="default")


def one(world: World) -> KubeObject:
    return world.cluster.get(claims.COMPOSITES, "one")


def synced_message(world: World) -> str:
    found = (one(world).get("status") or {}).get("conditions") or ()
    return next((str(each.get("message", "")) for each in found if each["type"] == "Synced"), "")


def test_the_keys_that_the_definition_names_are_written_and_follow(world: World) -> None:
    world.say(database())
    world.until(lambda: secret(world)["data"] == {"password": b64encode(b"eu").decode()})
    (owner,) = secret(world)["metadata"]["ownerReferences"]
    assert owner["uid"] == one(world)["metadata"]["uid"]
    world.until(lambda: bool(status_of(one(world)).get("connectionDetails")))
    assert "lastPublishedTime" in one(world)["status"]["connectionDetails"]
    world.until_rest()
    published = one(world)["status"]["connectionDetails"]
    world.writes.clear()
    annotated = one(world)
    annotated["metadata"]["annotations"] = {"note": "x"}
    world.cluster.replace(annotated)
    world.until_rest()
    assert world.writes == []
    assert one(world)["status"]["connectionDetails"] == published
    world.say(database("us"))
    world.until(lambda: secret(world)["data"] == {"password": b64encode(b"us").decode()})


def test_a_secret_that_goes_is_written_again(world: World) -> None:
    world.say(database())
    world.until(lambda: bool(secret(world)))
    world.until_rest()
    world.cluster.delete(SECRETS, "login", namespace="default")
    annotated = one(world)
    annotated["metadata"]["annotations"] = {"note": "x"}
    world.cluster.replace(annotated)
    world.until(lambda: bool(secret(world)))


def test_a_secret_of_somebody_else_is_left_alone_and_told_of(world: World) -> None:
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
    world.cluster.load([theirs])
    world.say(database())
    world.until(lambda: "login" in synced_message(world))
    assert secret(world)["data"] == theirs["data"]
