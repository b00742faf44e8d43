"""Required resources: selection, restrictions, and reconciles after changes."""

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
from tests.controller.compositions.environments import (
    BY_LABELS,
    BY_NAME,
    config_map,
    environment,
    in_surroundings,
)
from tests.controller.compositions.harness import (
    Harness,
    bucket,
    cluster_with_kinds,
    composition,
    definition,
)
from tests.oci_registry import running_registry
from tests.raising import refused_as

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
    memory = MemoryCluster(clock=SystemClock())
    memory.load(
        [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}},
            WIDGETS,
            config_map("a", tier="db"),
            config_map("b", tier="web"),
            config_map("a", "shop", tier="db"),
            {"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": "big"}},
        ]
    )
    return memory


@pytest.fixture
def seen(cluster: MemoryCluster) -> Iterator[ObjectCache]:
    cache = ObjectCache(cluster, SystemClock(), lambda *_change: None)
    yield cache
    cache.close()


@pytest.fixture
def source(cluster: MemoryCluster, seen: ObjectCache) -> ClusterSource:
    return ClusterSource(cluster, seen)


def labelled(**labels: str) -> dict[str, Any]:
    return {"matchLabels": {"labels": labels}}


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        pytest.param({"matchName": "a", "namespace": "shop"}, ["shop/a"], id="by name"),
        pytest.param({"matchName": "b", "namespace": "shop"}, [], id="missing name"),
        pytest.param(labelled(tier="db"), ["default/a", "shop/a"], id="labels, anywhere"),
        pytest.param({**labelled(tier="db"), "namespace": "shop"}, ["shop/a"], id="in a namespace"),
        pytest.param(labelled(tier="none"), [], id="labels without a match"),
        pytest.param(
            {**labelled(), "namespace": "default"}, ["default/a", "default/b"], id="no labels"
        ),
    ],
)
def test_objects_are_found_by_name_and_by_labels(
    source: ClusterSource, selection: dict[str, Any], expected: list[str]
) -> None:
    selector = {"apiVersion": "v1", "kind": "ConfigMap", **selection}
    for _again in range(2):
        resources = source.fetch_resources(selector)
        names = [f"{e['metadata']['namespace']}/{e['metadata']['name']}" for e in resources]
        assert [name for name in names if not name.endswith("kube-root-ca.crt")] == expected


@pytest.mark.parametrize("namespace", ["", "shop"], ids=["without", "with a namespace"])
@pytest.mark.parametrize("how", [{"matchName": "big"}, labelled()], ids=["by name", "by labels"])
def test_cluster_scoped_objects_are_found_despite_a_namespace(
    source: ClusterSource, namespace: str, how: dict[str, Any]
) -> None:
    selector = {"apiVersion": "example.org/v1", "kind": "Widget", "namespace": namespace, **how}
    (resource,) = source.fetch_resources(selector)
    assert resource["metadata"]["name"] == "big"


def test_an_unknown_kind_has_no_objects(source: ClusterSource) -> None:
    assert source.fetch_resources({"apiVersion": "x.org/v1", "kind": "X", "matchName": "a"}) == ()
    assert source.fetch_schema("x.org/v1", "X") is None


def test_schemas_are_those_of_the_version(source: ClusterSource) -> None:
    for version in ("v1", "v2"):
        schema = source.fetch_schema(f"example.org/{version}", "Widget")
        assert schema is not None
        assert schema["description"] == version
    # The embedded cluster has no schemas of built-in kinds.
    assert source.fetch_schema("v1", "ConfigMap") is None


class Describing(MemoryCluster):
    """A cluster that publishes schemas of built-in kinds, as an API server does."""

    def schema_of(self, api_version: str, kind: str) -> Mapping[str, Any] | None:
        return {"description": f"{api_version} {kind}"}


@pytest.mark.parametrize(
    ("api_version", "kind", "expected"),
    [
        pytest.param("v1", "ConfigMap", "v1 ConfigMap", id="core group"),
        pytest.param("apps/v1", "Deployment", "apps/v1 Deployment", id="in a group"),
        pytest.param("example.org/v2", "Widget", "v2", id="of a definition, as that says"),
    ],
)
def test_schemas_of_built_in_kinds_come_from_the_api_server(
    api_version: str, kind: str, expected: str
) -> None:
    cluster = Describing(clock=SystemClock())
    cluster.load([WIDGETS])
    seen = ObjectCache(cluster, SystemClock(), lambda *_change: None)
    try:
        source = ClusterSource(cluster, seen)
        assert (source.fetch_schema(api_version, kind) or {})["description"] == expected
        assert source.fetch_schema("nobody.org/v1", "Sandwich") is None
    finally:
        seen.close()


def test_required_resources_are_refused_when_they_are_disabled(
    cluster: MemoryCluster, seen: ObjectCache
) -> None:
    source = ClusterSource(cluster, seen, gives_resources=False)
    with refused_as("ExtraResourcesDisabled") as refused:
        source.fetch_resources({"apiVersion": "v1", "kind": "ConfigMap", "matchName": "a"})
    assert "ConfigMap" in refused.value.message
    # Schemas are not restricted.
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
def test_resources_of_other_namespaces_are_refused_under_the_restriction(
    cluster: MemoryCluster, source: ClusterSource, api_version: str, kind: str, namespace: str
) -> None:
    restricted = OwnNamespaceSource(source, cluster, "default")
    selector = {"apiVersion": api_version, "kind": kind, "matchLabels": {"labels": {"a": "b"}}}
    with refused_as("RequirementRefused"):
        restricted.fetch_resources({**selector, "namespace": namespace})


def test_resources_of_the_own_namespace_are_provided_under_the_restriction(
    cluster: MemoryCluster, source: ClusterSource
) -> None:
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "own", "namespace": "ns"},
    }
    cluster.create(config)
    selector = {"apiVersion": "v1", "kind": "ConfigMap", "matchName": "own", "namespace": "ns"}
    restricted = OwnNamespaceSource(source, cluster, "ns")
    assert [resource["metadata"]["name"] for resource in restricted.fetch_resources(selector)] == [
        "own"
    ]
    assert restricted.fetch_schema("example.org/v1", "Widget") is not None


def test_secrets_are_read_without_a_cache(cluster: MemoryCluster, source: ClusterSource) -> None:
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


# With a whole controller


@pytest.fixture
def harness() -> Iterator[Harness]:
    running = Harness(CompositionSettings("kanister-py", uses_revisions=True))
    running.start()
    running.define(definition())
    yield running
    running.close()


@pytest.mark.parametrize("how", [BY_NAME, BY_LABELS], ids=["by name", "by labels"])
def test_a_changed_environment_causes_a_reconcile(harness: Harness, how: dict[str, Any]) -> None:
    harness.apply(environment("red", stage="prod"))
    harness.apply(environment("grey", "elsewhere", stage="dev"))
    harness.apply(in_surroundings(how))
    harness.apply(bucket(names=()))
    harness.until(harness.is_ready)
    assert harness.colours() == {"red"}
    harness.until_idle()
    harness.apply(environment("green", stage="prod"))
    harness.until(lambda: harness.colours() == {"green"})
    harness.until_idle()
    harness.writes.clear()
    harness.apply(environment("black", "elsewhere", stage="dev"))
    harness.until_idle()
    assert harness.colours() == {"green"}
    assert harness.writes == []


def test_a_missing_environment_is_waited_for(harness: Harness) -> None:
    harness.apply(in_surroundings(BY_NAME))
    harness.apply(bucket(names=()))
    # Until the composition is in the cache, it fails for another reason.
    harness.until(lambda: "surroundings" in harness.condition("Synced").get("message", ""))
    assert harness.condition("Synced")["status"] == "False"
    harness.apply(environment("red"))
    harness.until(harness.is_ready)
    harness.cluster.delete(ENVIRONMENT_CONFIGS, "surroundings")
    harness.until(lambda: harness.condition("Synced").get("status") == "False")
    # Composed resources are kept.
    assert harness.colours() == {"red"}


def test_a_pipeline_reports_that_required_resources_are_disabled() -> None:
    settings = CompositionSettings("kanister-py", uses_revisions=True, gives_resources=False)
    harness = Harness(settings)
    harness.start()
    try:
        harness.define(definition())
        harness.apply(environment("red"))
        harness.apply(in_surroundings(BY_NAME))
        harness.apply(bucket(names=()))
        harness.until(
            lambda: "--disable-extra-resources" in harness.condition("Synced").get("message", "")
        )
        assert harness.composed() == {}
    finally:
        harness.close()


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


def test_an_object_that_gains_the_required_labels_causes_a_reconcile(harness: Harness) -> None:
    asking = composition()
    asking["spec"]["pipeline"][0]["input"]["inline"]["template"] = REQUIRING
    harness.apply({**config_map("one", **{"for": "buckets"}), "data": {"colour": "red"}})
    harness.apply(asking)
    harness.apply(bucket(names=()))
    harness.until(lambda: set(harness.composed()) == {"one"})
    harness.apply({**config_map("two", **{"for": "boxes"}), "data": {"colour": "red"}})
    harness.until_idle()
    assert set(harness.composed()) == {"one"}
    harness.apply({**config_map("two", **{"for": "buckets"}), "data": {"colour": "red"}})
    harness.until(lambda: set(harness.composed()) == {"one", "two"})
    harness.cluster.delete(CONFIG_MAPS, "one", namespace="default")
    harness.until(lambda: set(harness.composed()) == {"two"})


def with_input(colour: str) -> dict[str, Any]:
    """Return a ConfigMap with the input of a step."""
    (step,) = composition(colour)["spec"]["pipeline"]
    return {**config_map("shared"), "data": {"input.yaml": json.dumps(step["input"])}}


def test_an_input_from_a_registry_is_pulled_once(harness: Harness, tmp_path: Path) -> None:
    (step,) = composition("green")["spec"]["pipeline"]
    with running_registry(tmp_path) as registry:
        login = {"username": registry.login.username, "password": registry.login.password}
        config = json.dumps({"auths": {registry.address: login}}).encode()
        harness.apply(
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
        harness.apply(referring)
        harness.apply(bucket())
        harness.until(lambda: harness.is_ready() and harness.colours() == {"green"})
    harness.apply(bucket("another"))
    harness.until(lambda: harness.is_ready("another"))
    assert harness.colours("another") == {"green"}


def test_an_input_reference_needs_exactly_one_source_and_a_digest() -> None:
    cluster = cluster_with_kinds()
    wrong: dict[str, dict[str, Any]] = {
        "one of configMapRef and ociRef is required": {},
        "should match '@sha256:": {"ociRef": {"package": "r.example.org/team/in:v1"}},
    }
    for message, ref in wrong.items():
        obj = composition()
        (step,) = obj["spec"]["pipeline"]
        del step["input"]
        step["inputRef"] = ref
        with pytest.raises(Invalid, match=message):
            cluster.create(obj)


@pytest.mark.parametrize("gives_resources", [True, False])
def test_a_change_of_a_shared_input_reconciles_all_its_users(gives_resources: bool) -> None:
    referring = composition()
    (step,) = referring["spec"]["pipeline"]
    del step["input"]
    step["inputRef"] = {"configMapRef": {"name": "shared"}}
    settings = CompositionSettings(
        "kanister-py", uses_revisions=True, gives_resources=gives_resources
    )
    harness = Harness(settings)
    try:
        harness.start()
        harness.define(definition())
        harness.apply(referring)
        harness.apply(bucket())
        none = "inputRef names ConfigMap default/shared, which does not exist"
        harness.until(lambda: none in harness.condition("Synced").get("message", ""))
        harness.apply(with_input("green"))
        harness.until(lambda: harness.is_ready() and harness.colours() == {"green"})
        harness.apply(with_input("blue"))
        harness.until(lambda: harness.colours() == {"blue"})
        harness.until_idle()
        harness.writes.clear()
        harness.until_idle()
        assert harness.writes == []
    finally:
        harness.close()
