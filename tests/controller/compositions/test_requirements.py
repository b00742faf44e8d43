"""Requirements: pipelines get what they ask for, and nothing that they must not have."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.controller.compositions.requirements import ClusterSource, OwnNamespaceSource
from kanister_py.controller.functions.settings import CompositionSettings
from kanister_py.core.errors import Invalid
from kanister_py.core.kube.resources import CONFIG_MAPS
from kanister_py.core.revisions.kinds import ENVIRONMENT_CONFIGS
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.executor.object_cache import ObjectCache
from tests.controller.compositions.test_kinds import (
    World,
    bucket,
    cluster_with_kinds,
    composition,
    definition,
)
from tests.oci_registry import running_registry
from tests.raising import refused_as


def config_map(name: str, namespace: str = "default", **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
    }


WIDGETS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.org"},
    "spec": {
        "group": "example.org",
        "scope": "Cluster",
        "names": {"kind": "Widget", "plural": "widgets"},
        "versions": [
            {
                "name": name,
                "served": True,
                "storage": name == "v1",
                "schema": {"openAPIV3Schema": {"type": "object", "description": name}},
            }
            for name in ("v1", "v2")
        ],
    },
}


@pytest.fixture
def cluster() -> MemoryCluster:
    made = MemoryCluster(clock=SystemClock())
    made.load(
        [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}},
            WIDGETS,
            config_map("a", tier="db"),
            config_map("b", tier="web"),
            config_map("a", "shop", tier="db"),
            {"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": "big"}},
        ]
    )
    return made


@pytest.fixture
def seen(cluster: MemoryCluster) -> Iterator[ObjectCache]:
    made = ObjectCache(cluster, SystemClock(), lambda *_change: None)
    yield made
    made.close()


@pytest.fixture
def source(cluster: MemoryCluster, seen: ObjectCache) -> ClusterSource:
    return ClusterSource(cluster, seen)


def labelled(**labels: str) -> dict[str, Any]:
    return {"matchLabels": {"labels": labels}}


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        pytest.param({"matchName": "a", "namespace": "shop"}, ["shop/a"], id="by name"),
        pytest.param({"matchName": "b", "namespace": "shop"}, [], id="a name that is not there"),
        pytest.param(labelled(tier="db"), ["default/a", "shop/a"], id="labels, anywhere"),
        pytest.param({**labelled(tier="db"), "namespace": "shop"}, ["shop/a"], id="in a namespace"),
        pytest.param(labelled(tier="none"), [], id="labels that nothing has"),
        pytest.param(
            {**labelled(), "namespace": "default"}, ["default/a", "default/b"], id="no labels"
        ),
    ],
)
def test_objects_are_found_as_they_are_asked_for(
    source: ClusterSource, asked: dict[str, Any], found: list[str]
) -> None:
    selector = {"apiVersion": "v1", "kind": "ConfigMap", **asked}
    for _again in range(2):
        given = source.fetch_resources(selector)
        names = [f"{e['metadata']['namespace']}/{e['metadata']['name']}" for e in given]
        assert [each for each in names if not each.endswith("kube-root-ca.crt")] == found


@pytest.mark.parametrize("namespace", ["", "shop"], ids=["without", "with a needless namespace"])
@pytest.mark.parametrize("how", [{"matchName": "big"}, labelled()], ids=["by name", "by labels"])
def test_what_has_no_namespace_is_found_whatever_is_said(
    source: ClusterSource, namespace: str, how: dict[str, Any]
) -> None:
    selector = {"apiVersion": "example.org/v1", "kind": "Widget", "namespace": namespace, **how}
    (found,) = source.fetch_resources(selector)
    assert found["metadata"]["name"] == "big"


def test_a_kind_that_is_not_there_has_no_objects(source: ClusterSource) -> None:
    assert source.fetch_resources({"apiVersion": "x.org/v1", "kind": "X", "matchName": "a"}) == ()
    assert source.fetch_schema("x.org/v1", "X") is None


def test_schemas_are_those_of_the_version(source: ClusterSource) -> None:
    for version in ("v1", "v2"):
        schema = source.fetch_schema(f"example.org/{version}", "Widget")
        assert schema is not None
        assert schema["description"] == version
    # Nobody describes the kinds that the embedded cluster has without a definition.
    assert source.fetch_schema("v1", "ConfigMap") is None


class Describing(MemoryCluster):
    """A cluster that describes kinds besides those of definitions, as an API server does."""

    def schema_of(self, api_version: str, kind: str) -> Mapping[str, Any] | None:
        return {"description": f"{api_version} {kind}"}


@pytest.mark.parametrize(
    ("api_version", "kind", "want"),
    [
        pytest.param("v1", "ConfigMap", "v1 ConfigMap", id="every cluster has"),
        pytest.param("apps/v1", "Deployment", "apps/v1 Deployment", id="in a group"),
        pytest.param("example.org/v2", "Widget", "v2", id="of a definition, as that says"),
    ],
)
def test_kinds_without_a_definition_are_as_the_cluster_describes_them(
    api_version: str, kind: str, want: str
) -> None:
    cluster = Describing(clock=SystemClock())
    cluster.load([WIDGETS])
    seen = ObjectCache(cluster, SystemClock(), lambda *_change: None)
    try:
        source = ClusterSource(cluster, seen)
        assert (source.fetch_schema(api_version, kind) or {})["description"] == want
        assert source.fetch_schema("nobody.org/v1", "Sandwich") is None
    finally:
        seen.close()


def test_nothing_is_given_out_where_that_is_switched_off(
    cluster: MemoryCluster, seen: ObjectCache
) -> None:
    source = ClusterSource(cluster, seen, gives_resources=False)
    with refused_as("ExtraResourcesDisabled") as refused:
        source.fetch_resources({"apiVersion": "v1", "kind": "ConfigMap", "matchName": "a"})
    assert "ConfigMap" in refused.value.message
    # What a kind looks like is no secret.
    assert source.fetch_schema("example.org/v1", "Widget") is not None


@pytest.mark.parametrize(
    ("api_version", "kind", "namespace"),
    [
        pytest.param("v1", "ConfigMap", "other", id="other namespace"),
        pytest.param("v1", "ConfigMap", "", id="all namespaces"),
        pytest.param("v1", "Namespace", "", id="cluster-scoped"),
        pytest.param("v1", "Namespace", "default", id="cluster-scoped with a namespace"),
    ],
)
def test_resources_of_other_namespaces_are_refused_where_they_are_restricted(
    cluster: MemoryCluster, source: ClusterSource, api_version: str, kind: str, namespace: str
) -> None:
    restricted = OwnNamespaceSource(source, cluster, "default")
    selector = {"apiVersion": api_version, "kind": kind, "matchLabels": {"labels": {"a": "b"}}}
    with refused_as("RequirementRefused"):
        restricted.fetch_resources({**selector, "namespace": namespace})


def test_resources_of_the_own_namespace_are_given_where_they_are_restricted(
    cluster: MemoryCluster, source: ClusterSource
) -> None:
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "own", "namespace": "ns"}}
    cluster.create(made)
    selector = {"apiVersion": "v1", "kind": "ConfigMap", "matchName": "own", "namespace": "ns"}
    restricted = OwnNamespaceSource(source, cluster, "ns")
    assert [found["metadata"]["name"] for found in restricted.fetch_resources(selector)] == ["own"]
    assert restricted.fetch_schema("example.org/v1", "Widget") is not None


def test_secrets_are_as_they_are_now(cluster: MemoryCluster, source: ClusterSource) -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "door", "namespace": "default"},
        "data": {"key": "eA=="},
    }
    assert source.fetch_secret("default", "door") is None
    cluster.apply(secret, field_manager="people", force=True)
    assert source.fetch_secret("default", "door") == {"key": "eA=="}
    cluster.apply({**secret, "data": {"key": "eQ=="}}, field_manager="people", force=True)
    assert source.fetch_secret("default", "door") == {"key": "eQ=="}


# On a cluster, with everything around it


def environment(colour: str, name: str = "surroundings", **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.crossplane.io/v1beta1",
        "kind": "EnvironmentConfig",
        "metadata": {"name": name, "labels": labels},
        "data": {"colour": colour},
    }


BY_NAME = {"type": "Reference", "ref": {"name": "surroundings"}}
BY_LABELS = {
    "type": "Selector",
    "selector": {
        "mode": "Single",
        "matchLabels": [{"type": "Value", "key": "stage", "value": "prod"}],
    },
}
TEMPLATE = """
apiVersion: v1
kind: ConfigMap
metadata:
  annotations:
    gotemplating.fn.crossplane.io/composition-resource-name: a
    gotemplating.fn.crossplane.io/ready: "True"
data:
  colour: {{ (index .context "apiextensions.crossplane.io/environment").colour }}
"""


def in_surroundings(source: dict[str, Any]) -> dict[str, Any]:
    made = composition()
    made["spec"]["pipeline"][0]["input"]["inline"]["template"] = TEMPLATE
    made["spec"]["pipeline"].insert(
        0,
        {
            "step": "surroundings",
            "functionRef": {"name": "function-environment-configs"},
            "input": {
                "apiVersion": "environmentconfigs.fn.crossplane.io/v1beta1",
                "kind": "Input",
                "spec": {"environmentConfigs": [source]},
            },
        },
    )
    return made


@pytest.fixture
def world() -> Iterator[World]:
    made = World(CompositionSettings("kanister-py", uses_revisions=True))
    made.start()
    made.define(definition())
    yield made
    made.close()


@pytest.mark.parametrize("how", [BY_NAME, BY_LABELS], ids=["by name", "by labels"])
def test_a_change_of_the_surroundings_composes_anew(world: World, how: dict[str, Any]) -> None:
    world.say(environment("red", stage="prod"))
    world.say(environment("grey", "elsewhere", stage="dev"))
    world.say(in_surroundings(how))
    world.say(bucket(names=()))
    world.until(world.is_ready)
    assert world.colours() == {"red"}
    world.until_rest()
    world.say(environment("green", stage="prod"))
    world.until(lambda: world.colours() == {"green"})
    world.until_rest()
    world.writes.clear()
    world.say(environment("black", "elsewhere", stage="dev"))
    world.until_rest()
    assert world.colours() == {"green"}
    assert world.writes == []


def test_surroundings_that_come_later_are_waited_for(world: World) -> None:
    world.say(in_surroundings(BY_NAME))
    world.say(bucket(names=()))
    # Before its composition was seen, it had failed for another reason.
    world.until(lambda: "surroundings" in world.condition("Synced").get("message", ""))
    assert world.condition("Synced")["status"] == "False"
    world.say(environment("red"))
    world.until(world.is_ready)
    world.cluster.delete(ENVIRONMENT_CONFIGS, "surroundings")
    world.until(lambda: world.condition("Synced").get("status") == "False")
    # What it composed before stays.
    assert world.colours() == {"red"}


def test_a_pipeline_that_asks_where_nothing_is_given_says_so() -> None:
    settings = CompositionSettings("kanister-py", uses_revisions=True, gives_resources=False)
    world = World(settings)
    world.start()
    try:
        world.define(definition())
        world.say(environment("red"))
        world.say(in_surroundings(BY_NAME))
        world.say(bucket(names=()))
        world.until(
            lambda: "--disable-extra-resources" in world.condition("Synced").get("message", "")
        )
        assert world.composed() == {}
    finally:
        world.close()


REQUIRING = """
{{- with .extraResources }}{{ range $found := (index . "settings").items }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  annotations:
    gotemplating.fn.crossplane.io/composition-resource-name: {{ $found.resource.metadata.name }}
    gotemplating.fn.crossplane.io/ready: "True"
data:
  colour: {{ $found.resource.data.colour }}
{{- end }}{{ end }}
---
apiVersion: meta.gotemplating.fn.crossplane.io/v1alpha1
kind: ExtraResources
requirements:
  settings:
    apiVersion: v1
    kind: ConfigMap
    matchLabels: {for: buckets}
"""


def test_what_gains_the_labels_asked_for_composes_anew(world: World) -> None:
    asking = composition()
    asking["spec"]["pipeline"][0]["input"]["inline"]["template"] = REQUIRING
    world.say({**config_map("one", **{"for": "buckets"}), "data": {"colour": "red"}})
    world.say(asking)
    world.say(bucket(names=()))
    world.until(lambda: set(world.composed()) == {"one"})
    world.say({**config_map("two", **{"for": "boxes"}), "data": {"colour": "red"}})
    world.until_rest()
    assert set(world.composed()) == {"one"}
    world.say({**config_map("two", **{"for": "buckets"}), "data": {"colour": "red"}})
    world.until(lambda: set(world.composed()) == {"one", "two"})
    world.cluster.delete(CONFIG_MAPS, "one", namespace="default")
    world.until(lambda: set(world.composed()) == {"two"})


def with_input(colour: str) -> dict[str, Any]:
    """Give a ConfigMap that holds what the step of a composition is told."""
    (step,) = composition(colour)["spec"]["pipeline"]
    return {**config_map("shared"), "data": {"input.yaml": json.dumps(step["input"])}}


def test_an_input_out_of_a_registry_is_read_once_and_then_needs_no_registry(
    world: World, tmp_path: Path
) -> None:
    (step,) = composition("green")["spec"]["pipeline"]
    with running_registry(tmp_path) as registry:
        login = {"username": registry.login.username, "password": registry.login.password}
        config = json.dumps({"auths": {registry.address: login}}).encode()
        world.say(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "pull", "namespace": "kanister-py"},
                "data": {".dockerconfigjson": b64encode(config).decode()},
            }
        )
        package = registry.push_files("team/in", input__yaml=json.dumps(step["input"]).encode())
        referring = composition()
        (step,) = referring["spec"]["pipeline"]
        del step["input"]
        secrets = [{"name": "pull"}]
        step["inputRef"] = {"ociRef": {"package": str(package), "packagePullSecrets": secrets}}
        world.say(referring)
        world.say(bucket())
        world.until(lambda: world.is_ready() and world.colours() == {"green"})
    world.say(bucket("another"))
    world.until(lambda: world.is_ready("another"))
    assert world.colours("another") == {"green"}


def test_a_stored_reference_names_one_place_and_a_digest() -> None:
    cluster = cluster_with_kinds()
    wrong: dict[str, dict[str, Any]] = {
        "one of configMapRef and ociRef is required": {},
        "should match '@sha256:": {"ociRef": {"package": "r.example.org/team/in:v1"}},
    }
    for message, ref in wrong.items():
        made = composition()
        (step,) = made["spec"]["pipeline"]
        del step["input"]
        step["inputRef"] = ref
        with pytest.raises(Invalid, match=message):
            cluster.create(made)


@pytest.mark.parametrize("gives_resources", [True, False])
def test_an_input_that_several_compositions_share_is_followed(gives_resources: bool) -> None:
    referring = composition()
    (step,) = referring["spec"]["pipeline"]
    del step["input"]
    step["inputRef"] = {"configMapRef": {"name": "shared"}}
    settings = CompositionSettings(
        "kanister-py", uses_revisions=True, gives_resources=gives_resources
    )
    world = World(settings)
    try:
        world.start()
        world.define(definition())
        world.say(referring)
        world.say(bucket())
        none = "inputRef names ConfigMap default/shared, which does not exist"
        world.until(lambda: none in world.condition("Synced").get("message", ""))
        world.say(with_input("green"))
        world.until(lambda: world.is_ready() and world.colours() == {"green"})
        world.say(with_input("blue"))
        world.until(lambda: world.colours() == {"blue"})
        world.until_rest()
        world.writes.clear()
        world.until_rest()
        assert world.writes == []
    finally:
        world.close()
