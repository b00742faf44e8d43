"""Contract of Kubernetes clusters.

It covers only the behaviour of an API server itself: nothing that needs a controller (garbage
collection, deletion of a namespace's contents) or a kubelet.
"""

from __future__ import annotations

import base64
import json
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import pytest

from kanister_py.core.errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    Expired,
    Invalid,
    NoMatch,
    NotFound,
    UnsupportedMediaType,
)
from kanister_py.core.kube.managed_fields import ApplyConflict
from kanister_py.core.kube.resources import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    NAMESPACES,
    PODS,
    SECRETS,
    GroupVersionResource,
)
from kanister_py.ports.cluster import Cluster, EventType, KubeObject, PatchType, WatchEvent


def config_map(namespace: str, name: str = "settings", **data: str) -> KubeObject:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": data or {"colour": "red"},
    }


def labelled(namespace: str, name: str, **labels: str) -> KubeObject:
    data = config_map(namespace, name)
    data["metadata"]["labels"] = labels
    return data


def deployment(namespace: str, name: str = "web") -> KubeObject:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "containers": [
                        {"name": "main", "image": "web:1", "env": [{"name": "A", "value": "1"}]},
                        {"name": "side", "image": "side:1"},
                    ]
                },
            },
        },
    }


def pod(namespace: str, name: str = "worker") -> KubeObject:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "automountServiceAccountToken": False,
            "containers": [{"name": "main", "image": "busybox:1"}],
        },
    }


RULES = [
    {
        "rule": "!has(oldSelf.serial) || self.size >= oldSelf.size",
        "messageExpression": "'smaller than it was: ' + oldSelf.serial",
    },
    {
        "rule": "self.size < 100 || has(self.serial)",
        "message": "a big one has a serial",
        "reason": "FieldValueRequired",
        "fieldPath": ".serial",
    },
    {
        "rule": "oldSelf.hasValue() || self.size != 99",
        "optionalOldSelf": True,
        "message": "nothing begins with 99",
    },
]


def definition(plural: str) -> KubeObject:
    kind = plural.capitalize()
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.contract.example.org"},
        "spec": {
            "group": "contract.example.org",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {
                                "spec": {
                                    "type": "object",
                                    "required": ["size"],
                                    "x-kubernetes-validations": RULES,
                                    "properties": {
                                        "size": {"type": "integer", "minimum": 1},
                                        "serial": {
                                            "type": "string",
                                            "maxLength": 20,
                                            "x-kubernetes-validations": [
                                                {"rule": "self == oldSelf", "message": "stays"}
                                            ],
                                        },
                                        "colour": {
                                            "type": "string",
                                            "enum": ["red", "blue"],
                                            "default": "red",
                                        },
                                    },
                                },
                                "status": {
                                    "type": "object",
                                    "properties": {"phase": {"type": "string"}},
                                },
                            },
                        }
                    },
                }
            ],
        },
    }


def version_of(obj: KubeObject) -> str:
    version = obj["metadata"]["resourceVersion"]
    assert isinstance(version, str)
    return version


def first(events: Iterator[WatchEvent], count: int) -> list[tuple[str, str]]:
    """Return the type and name of the first events."""
    return [(str(event.type), event.object["metadata"]["name"]) for event in islice(events, count)]


def wait_until_served(cluster: Cluster, resource: GroupVersionResource) -> None:
    """Wait until the API server serves a definition that is already established."""
    end = time.monotonic() + 30
    while True:
        try:
            cluster.describe(resource)
            cluster.list(resource)
        except NotFound:
            if time.monotonic() >= end:
                raise
            time.sleep(0.05)
        else:
            return


def published_schema(cluster: Cluster, resource: GroupVersionResource) -> Mapping[str, Any]:
    """Wait until the API server publishes the schema of a served kind."""
    end = time.monotonic() + 60
    while True:
        schema = cluster.schema_of(resource.api_version, resource.resource.capitalize())
        if schema is not None:
            return schema
        assert time.monotonic() < end, f"nobody describes {resource}"
        time.sleep(0.2)


class ClusterContract:
    """Behaviour of every implementation of Cluster."""

    promises_bookmarks = True
    """Whether a quiet watch reliably receives bookmarks; Kubernetes does not guarantee them."""

    @pytest.fixture
    def cluster(self) -> Cluster:
        raise NotImplementedError("say which cluster is held to the contract")

    @pytest.fixture
    def namespace(self, cluster: Cluster) -> Iterator[str]:
        name = f"contract-{uuid.uuid4().hex[:10]}"
        cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        yield name
        cluster.delete(NAMESPACES, name)

    @pytest.fixture
    def widgets(self, cluster: Cluster) -> Iterator[GroupVersionResource]:
        """A custom kind of this test, already served."""
        plural = (
            f"widget{uuid.uuid4().hex[:8].translate(str.maketrans('0123456789', 'ghijklmnop'))}s"
        )
        created = cluster.create(definition(plural))
        name = created["metadata"]["name"]
        with cluster.watch(
            CUSTOM_RESOURCE_DEFINITIONS, field_selector=f"metadata.name={name}", timeout_seconds=30
        ) as watch:
            for event in watch:
                conditions = event.object.get("status", {}).get("conditions") or []
                if any(c["type"] == "Established" and c["status"] == "True" for c in conditions):
                    break
        resource = GroupVersionResource("contract.example.org", "v1", plural)
        wait_until_served(cluster, resource)
        yield resource
        cluster.delete(CUSTOM_RESOURCE_DEFINITIONS, name)

    def widget(
        self, widgets: GroupVersionResource, namespace: str, name: str = "w", **spec: Any
    ) -> KubeObject:
        return {
            "apiVersion": widgets.api_version,
            "kind": widgets.resource.capitalize(),
            "metadata": {"name": name, "namespace": namespace},
            "spec": spec or {"size": 1},
        }

    # Creating and reading

    def test_created_object_has_uid_version_and_timestamp(
        self, cluster: Cluster, namespace: str
    ) -> None:
        created = cluster.create(config_map(namespace))
        assert created["metadata"]["uid"]
        assert created["metadata"]["creationTimestamp"].endswith("Z")
        assert int(version_of(created)) > 0
        assert cluster.get(CONFIG_MAPS, "settings", namespace=namespace) == created

    def test_arguments_are_not_changed(self, cluster: Cluster, namespace: str) -> None:
        manifest = config_map(namespace)
        cluster.create(manifest)
        assert manifest == config_map(namespace)

    def test_returned_objects_may_be_changed_by_the_caller(
        self, cluster: Cluster, namespace: str
    ) -> None:
        cluster.create(config_map(namespace))["data"]["colour"] = "green"
        read = cluster.get(CONFIG_MAPS, "settings", namespace=namespace)
        assert read["data"] == {"colour": "red"}

    def test_creating_an_existing_name_fails(self, cluster: Cluster, namespace: str) -> None:
        cluster.create(config_map(namespace))
        with pytest.raises(AlreadyExists) as caught:
            cluster.create(config_map(namespace))
        assert caught.value.message == 'configmaps "settings" already exists'

    def test_not_found_names_the_object(self, cluster: Cluster, namespace: str) -> None:
        with pytest.raises(NotFound) as caught:
            cluster.get(DEPLOYMENTS, "nobody", namespace=namespace)
        assert caught.value.message == 'deployments.apps "nobody" not found'
        assert caught.value.reason == "NotFound"

    def test_unknown_kind_raises_no_match(self, cluster: Cluster) -> None:
        with pytest.raises(NoMatch) as caught:
            cluster.resource_for("nowhere.example.org/v1", "Nothing")
        assert 'no matches for kind "Nothing"' in caught.value.message

    def test_resource_is_found_by_kind(self, cluster: Cluster) -> None:
        kind = cluster.resource_for("apps/v1", "Deployment")
        assert kind.gvr == DEPLOYMENTS
        assert (kind.is_namespaced, kind.has_status, kind.has_scale) == (True, True, True)
        assert cluster.resource_for("v1", "Namespace").is_namespaced is False
        assert cluster.describe(CONFIG_MAPS).kind == "ConfigMap"

    def test_generated_name_starts_with_the_prefix(self, cluster: Cluster, namespace: str) -> None:
        manifest = config_map(namespace)
        manifest["metadata"] = {"generateName": "job-", "namespace": namespace}
        names = {cluster.create(manifest)["metadata"]["name"] for _ in range(5)}
        assert len(names) == 5
        assert all(name.startswith("job-") and len(name) == len("job-") + 5 for name in names)

    @pytest.mark.parametrize("name", ["Settings", "a_b", "-a", "a" * 254])
    def test_invalid_name_is_rejected_with_its_path(
        self, cluster: Cluster, namespace: str, name: str
    ) -> None:
        with pytest.raises(Invalid) as caught:
            cluster.create(config_map(namespace, name))
        assert [cause.field for cause in caught.value.causes] == ["metadata.name"]

    def test_all_problems_are_reported_together(self, cluster: Cluster, namespace: str) -> None:
        wrong = deployment(namespace)
        wrong["spec"]["selector"] = {"matchLabels": {"app": "other"}}
        wrong["metadata"]["labels"] = {"bad key": "x"}
        with pytest.raises(Invalid) as caught:
            cluster.create(wrong)
        assert {cause.field for cause in caught.value.causes} >= {
            "metadata.labels",
            "spec.template.metadata.labels",
        }

    def test_problem_of_second_container_has_its_index(
        self, cluster: Cluster, namespace: str
    ) -> None:
        mount = {"name": "nowhere", "mountPath": "/data"}
        containers = [{"name": name, "image": "x", "volumeMounts": [mount]} for name in "ab"]
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "two", "namespace": namespace},
            "spec": {"containers": containers},
        }
        with pytest.raises(Invalid) as caught:
            cluster.create(pod)
        assert [cause.field for cause in caught.value.causes] == [
            "spec.containers[0].volumeMounts[0].name",
            "spec.containers[1].volumeMounts[0].name",
        ]

    def test_object_without_kind_is_a_bad_request(self, cluster: Cluster, namespace: str) -> None:
        with pytest.raises(BadRequest):
            cluster.create({"apiVersion": "v1", "metadata": {"name": "x", "namespace": namespace}})

    def test_dry_run_stores_nothing(self, cluster: Cluster, namespace: str) -> None:
        created = cluster.create(config_map(namespace))
        would_be = cluster.replace({**created, "data": {"colour": "blue"}}, dry_run=True)
        assert would_be["data"] == {"colour": "blue"}
        assert cluster.get(CONFIG_MAPS, "settings", namespace=namespace) == created

    def test_string_data_of_a_secret_becomes_data(self, cluster: Cluster, namespace: str) -> None:
        created = cluster.create(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "s", "namespace": namespace},
                "stringData": {"user": "ada"},
            }
        )
        assert created["data"] == {"user": base64.b64encode(b"ada").decode()}
        assert created["type"] == "Opaque"
        assert "stringData" not in created

    def test_status_of_a_created_object_is_dropped(self, cluster: Cluster, namespace: str) -> None:
        manifest = deployment(namespace)
        manifest["status"] = {"replicas": 7}
        assert cluster.create(manifest)["status"] == {}

    # Replacing

    def test_replacing_an_outdated_version_is_a_conflict(
        self, cluster: Cluster, namespace: str
    ) -> None:
        read = cluster.create(config_map(namespace))
        cluster.replace({**read, "data": {"colour": "blue"}})
        with pytest.raises(Conflict) as caught:
            cluster.replace({**read, "data": {"colour": "green"}})
        assert "the object has been modified" in caught.value.message
        assert cluster.get(CONFIG_MAPS, "settings", namespace=namespace)["data"] == {
            "colour": "blue"
        }

    def test_replacing_without_a_version_succeeds(self, cluster: Cluster, namespace: str) -> None:
        cluster.create(config_map(namespace))
        assert cluster.replace(config_map(namespace, size="9"))["data"] == {"size": "9"}

    def test_replacing_a_missing_object_fails(self, cluster: Cluster, namespace: str) -> None:
        with pytest.raises(NotFound):
            cluster.replace(config_map(namespace))

    def test_replacing_with_another_uid_is_a_conflict(
        self, cluster: Cluster, namespace: str
    ) -> None:
        old = cluster.create(config_map(namespace))
        cluster.delete(CONFIG_MAPS, "settings", namespace=namespace)
        cluster.create(config_map(namespace))
        with pytest.raises(Conflict):
            cluster.replace(old)

    def test_replacing_does_not_change_the_identity(self, cluster: Cluster, namespace: str) -> None:
        created = cluster.create(config_map(namespace))
        sent = config_map(namespace, size="1")
        sent["metadata"]["creationTimestamp"] = "2001-01-01T00:00:00Z"
        written = cluster.replace(sent)
        for key in ("uid", "creationTimestamp"):
            assert written["metadata"][key] == created["metadata"][key]

    def test_unchanged_write_keeps_the_version(self, cluster: Cluster, namespace: str) -> None:
        created = cluster.create(config_map(namespace))
        assert version_of(cluster.replace(created)) == version_of(created)
        patched = cluster.patch(
            CONFIG_MAPS, "settings", {"data": {"colour": "red"}}, namespace=namespace
        )
        assert version_of(patched) == version_of(created)

    def test_versions_increase_across_the_cluster(self, cluster: Cluster, namespace: str) -> None:
        first_made = cluster.create(config_map(namespace, "a"))
        second = cluster.create(config_map(namespace, "b"))
        again = cluster.replace({**first_made, "data": {"x": "y"}})
        assert int(version_of(first_made)) < int(version_of(second)) < int(version_of(again))

    def test_immutable_config_map_cannot_be_changed(self, cluster: Cluster, namespace: str) -> None:
        created = cluster.create({**config_map(namespace), "immutable": True})
        with pytest.raises(Invalid):
            cluster.replace({**created, "data": {"colour": "blue"}})
        with pytest.raises(Invalid):
            cluster.replace({**created, "immutable": False})
        cluster.delete(CONFIG_MAPS, "settings", namespace=namespace)

    def test_selector_of_a_deployment_is_immutable(self, cluster: Cluster, namespace: str) -> None:
        created = cluster.create(deployment(namespace))
        created["spec"]["selector"]["matchLabels"]["tier"] = "a"
        created["spec"]["template"]["metadata"]["labels"]["tier"] = "a"
        with pytest.raises(Invalid) as caught:
            cluster.replace(created)
        assert [cause.field for cause in caught.value.causes] == ["spec.selector"]

    # Generation and status

    def test_generation_counts_changes_of_the_spec(self, cluster: Cluster, namespace: str) -> None:
        created = cluster.create(deployment(namespace))
        assert created["metadata"]["generation"] == 1
        created["metadata"]["labels"] = {"a": "b"}
        relabelled = cluster.replace(created)
        assert relabelled["metadata"]["generation"] == 1
        relabelled["spec"]["replicas"] = 3
        assert cluster.replace(relabelled)["metadata"]["generation"] == 2

    def test_status_is_replaced_separately(self, cluster: Cluster, namespace: str) -> None:
        created = cluster.create(deployment(namespace))
        created["status"] = {"replicas": 2, "observedGeneration": 1}
        created["spec"]["replicas"] = 9
        with_status = cluster.replace_status(created)
        assert with_status["status"]["replicas"] == 2
        assert with_status["spec"]["replicas"] == 2
        assert with_status["metadata"]["generation"] == 1
        with_status["status"] = {"replicas": 5}
        with_status["spec"]["replicas"] = 4
        written = cluster.replace(with_status)
        assert written["spec"]["replicas"] == 4
        assert written["status"]["replicas"] == 2

    def test_status_patch_changes_only_the_status(self, cluster: Cluster, namespace: str) -> None:
        cluster.create(deployment(namespace))
        patched = cluster.patch(
            DEPLOYMENTS,
            "web",
            {"status": {"replicas": 1}, "spec": {"replicas": 8}},
            namespace=namespace,
            subresource="status",
        )
        assert patched["status"]["replicas"] == 1
        assert patched["spec"]["replicas"] == 2

    def test_kind_without_status_subresource_is_not_found(
        self, cluster: Cluster, namespace: str
    ) -> None:
        created = cluster.create(config_map(namespace))
        with pytest.raises(NotFound):
            cluster.replace_status(created)

    # Patches

    def test_merge_patch_sets_and_removes_fields(self, cluster: Cluster, namespace: str) -> None:
        cluster.create(config_map(namespace, a="1", b="2"))
        patched = cluster.patch(
            CONFIG_MAPS, "settings", {"data": {"a": None, "c": "3"}}, namespace=namespace
        )
        assert patched["data"] == {"b": "2", "c": "3"}

    def test_patch_with_outdated_version_is_a_conflict(
        self, cluster: Cluster, namespace: str
    ) -> None:
        created = cluster.create(config_map(namespace))
        cluster.replace({**created, "data": {"x": "1"}})
        patch = {"metadata": {"resourceVersion": version_of(created)}, "data": {"x": "2"}}
        with pytest.raises(Conflict):
            cluster.patch(CONFIG_MAPS, "settings", patch, namespace=namespace)

    def test_json_patch_is_atomic(self, cluster: Cluster, namespace: str) -> None:
        cluster.create(config_map(namespace, a="1"))
        with pytest.raises(Invalid):
            cluster.patch(
                CONFIG_MAPS,
                "settings",
                [
                    {"op": "replace", "path": "/data/a", "value": "2"},
                    {"op": "test", "path": "/data/a", "value": "3"},
                ],
                namespace=namespace,
                patch_type=PatchType.JSON,
            )
        assert cluster.get(CONFIG_MAPS, "settings", namespace=namespace)["data"] == {"a": "1"}
        patched = cluster.patch(
            CONFIG_MAPS,
            "settings",
            [
                {"op": "add", "path": "/data/b", "value": "2"},
                {"op": "remove", "path": "/data/a"},
            ],
            namespace=namespace,
            patch_type=PatchType.JSON,
        )
        assert patched["data"] == {"b": "2"}

    def test_strategic_patch_merges_containers_by_name(
        self, cluster: Cluster, namespace: str
    ) -> None:
        cluster.create(deployment(namespace))
        containers = [{"name": "main", "image": "web:2", "env": [{"name": "B", "value": "2"}]}]
        patched = cluster.patch(
            DEPLOYMENTS,
            "web",
            {"spec": {"template": {"spec": {"containers": containers}}}},
            namespace=namespace,
            patch_type=PatchType.STRATEGIC,
        )
        merged = {c["name"]: c for c in patched["spec"]["template"]["spec"]["containers"]}
        assert merged["main"]["image"] == "web:2"
        assert {e["name"] for e in merged["main"]["env"]} == {"A", "B"}
        assert merged["side"]["image"] == "side:1"

    def test_strategic_patch_deletes_an_item_of_a_list(
        self, cluster: Cluster, namespace: str
    ) -> None:
        cluster.create(deployment(namespace))
        patched = cluster.patch(
            DEPLOYMENTS,
            "web",
            {
                "spec": {
                    "template": {"spec": {"containers": [{"name": "side", "$patch": "delete"}]}}
                }
            },
            namespace=namespace,
            patch_type=PatchType.STRATEGIC,
        )
        assert [c["name"] for c in patched["spec"]["template"]["spec"]["containers"]] == ["main"]

    def test_patch_cannot_change_the_name(self, cluster: Cluster, namespace: str) -> None:
        cluster.create(config_map(namespace))
        with pytest.raises(BadRequest):
            cluster.patch(
                CONFIG_MAPS, "settings", {"metadata": {"name": "other"}}, namespace=namespace
            )

    def test_patching_a_missing_object_fails(self, cluster: Cluster, namespace: str) -> None:
        with pytest.raises(NotFound):
            cluster.patch(CONFIG_MAPS, "settings", {"data": {}}, namespace=namespace)

    # Server-side apply

    def test_apply_creates_and_then_updates(self, cluster: Cluster, namespace: str) -> None:
        applied = cluster.apply(config_map(namespace, a="1"), field_manager="one")
        changed = cluster.apply(config_map(namespace, a="2"), field_manager="one")
        assert changed["data"] == {"a": "2"}
        assert changed["metadata"]["uid"] == applied["metadata"]["uid"]

    def test_unchanged_apply_keeps_the_version(self, cluster: Cluster, namespace: str) -> None:
        applied = cluster.apply(config_map(namespace, a="1"), field_manager="one")
        again = cluster.apply(config_map(namespace, a="1"), field_manager="one")
        assert version_of(again) == version_of(applied)

    def test_applied_empty_map_can_be_extended(self, cluster: Cluster, namespace: str) -> None:
        manifest = config_map(namespace)
        manifest["metadata"]["labels"] = {}
        cluster.apply(manifest, field_manager="one")
        applied = cluster.apply(labelled(namespace, "settings", tier="web"), field_manager="one")
        assert applied["metadata"]["labels"] == {"tier": "web"}

    def test_second_controller_reference_is_rejected(
        self, cluster: Cluster, namespace: str
    ) -> None:
        def owned_by(uid: str) -> KubeObject:
            manifest = config_map(namespace)
            owner = {"apiVersion": "v1", "kind": "Secret", "name": uid, "uid": uid}
            manifest["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
            return manifest

        first, second = str(uuid.uuid4()), str(uuid.uuid4())
        cluster.apply(owned_by(first), field_manager="one", force=True)
        with pytest.raises(Invalid):
            cluster.apply(owned_by(second), field_manager="two", force=True)

    def test_apply_removes_only_own_omitted_fields(self, cluster: Cluster, namespace: str) -> None:
        cluster.apply(config_map(namespace, a="1", b="1"), field_manager="one")
        cluster.apply(config_map(namespace, c="1"), field_manager="two")
        applied = cluster.apply(config_map(namespace, a="1"), field_manager="one")
        assert applied["data"] == {"a": "1", "c": "1"}

    def test_apply_conflict_names_the_other_manager(self, cluster: Cluster, namespace: str) -> None:
        cluster.apply(config_map(namespace, a="1"), field_manager="one")
        with pytest.raises(ApplyConflict) as caught:
            cluster.apply(config_map(namespace, a="2"), field_manager="two")
        assert caught.value.conflicts == (("one", ".data.a"),)
        assert caught.value.reason == "Conflict"

    def test_forced_apply_takes_over_a_field(self, cluster: Cluster, namespace: str) -> None:
        cluster.apply(config_map(namespace, a="1", b="1"), field_manager="one")
        cluster.apply(config_map(namespace, a="2"), field_manager="two", force=True)
        with pytest.raises(ApplyConflict):
            cluster.apply(config_map(namespace, a="1", b="1"), field_manager="one")
        kept = cluster.apply(config_map(namespace, b="1"), field_manager="one")
        assert kept["data"] == {"a": "2", "b": "1"}

    def test_two_managers_may_apply_the_same_value(self, cluster: Cluster, namespace: str) -> None:
        cluster.apply(config_map(namespace, a="1"), field_manager="one")
        cluster.apply(config_map(namespace, a="1"), field_manager="two")
        left = cluster.apply({**config_map(namespace), "data": {"b": "1"}}, field_manager="one")
        assert left["data"] == {"a": "1", "b": "1"}

    def test_replace_takes_over_applied_fields(self, cluster: Cluster, namespace: str) -> None:
        cluster.apply(config_map(namespace, a="1"), field_manager="one")
        cluster.patch(
            CONFIG_MAPS,
            "settings",
            {"data": {"a": "2"}},
            namespace=namespace,
            field_manager="editor",
        )
        with pytest.raises(ApplyConflict) as caught:
            cluster.apply(config_map(namespace, a="1"), field_manager="one")
        assert caught.value.conflicts == (("editor", ".data.a"),)

    def test_apply_merges_containers_by_name(self, cluster: Cluster, namespace: str) -> None:
        cluster.apply(deployment(namespace), field_manager="one")
        other = deployment(namespace)
        other["spec"] = {
            "selector": other["spec"]["selector"],
            "template": {
                "metadata": other["spec"]["template"]["metadata"],
                "spec": {"containers": [{"name": "probe", "image": "probe:1"}]},
            },
        }
        applied = cluster.apply(other, field_manager="two")
        names = {c["name"] for c in applied["spec"]["template"]["spec"]["containers"]}
        assert names == {"main", "side", "probe"}
        changed = deployment(namespace)
        changed["spec"]["template"]["spec"]["containers"] = [{"name": "main", "image": "web:9"}]
        with pytest.raises(ApplyConflict) as caught:
            cluster.apply(changed, field_manager="three")
        assert caught.value.conflicts == (
            ("one", '.spec.template.spec.containers[name="main"].image'),
        )

    def test_apply_requires_a_field_manager(self, cluster: Cluster, namespace: str) -> None:
        with pytest.raises(Invalid):
            cluster.apply(config_map(namespace), field_manager="")

    # Lists and selectors

    @pytest.mark.parametrize(
        ("selector", "want"),
        [
            pytest.param("", ["a", "b", "c"], id="everything"),
            pytest.param("app=db", ["a", "b"], id="equal"),
            pytest.param("app!=db", ["c"], id="unequal, or absent"),
            pytest.param("tier", ["a", "c"], id="present"),
            pytest.param("!tier", ["b"], id="absent"),
            pytest.param("tier in (front,back)", ["a", "c"], id="one of"),
            pytest.param("app=db,tier notin (back)", ["b"], id="both at once"),
        ],
    )
    def test_list_with_label_selector(
        self, cluster: Cluster, namespace: str, selector: str, want: list[str]
    ) -> None:
        cluster.create(labelled(namespace, "a", app="db", tier="back"))
        cluster.create(labelled(namespace, "b", app="db"))
        cluster.create(labelled(namespace, "c", app="web", tier="front"))
        listed = cluster.list(CONFIG_MAPS, namespace=namespace, label_selector=selector)
        mine = [o["metadata"]["name"] for o in listed if o["metadata"]["name"] in "abc"]
        assert mine == want

    def test_list_with_field_selector(self, cluster: Cluster, namespace: str) -> None:
        cluster.create(config_map(namespace, "a"))
        cluster.create(config_map(namespace, "b"))
        listed = cluster.list(CONFIG_MAPS, namespace=namespace, field_selector="metadata.name=b")
        assert [o["metadata"]["name"] for o in listed] == ["b"]
        cluster.create(pod(namespace))
        chosen = cluster.list(PODS, namespace=namespace, field_selector="status.phase=Pending")
        assert len(chosen) == 1
        none = cluster.list(PODS, namespace=namespace, field_selector="status.phase=Running")
        assert len(none) == 0

    def test_unsupported_field_selector_is_rejected(self, cluster: Cluster, namespace: str) -> None:
        with pytest.raises(BadRequest):
            cluster.list(CONFIG_MAPS, namespace=namespace, field_selector="data.colour=red")

    def test_list_without_namespace_covers_all(self, cluster: Cluster, namespace: str) -> None:
        created = cluster.create(labelled(namespace, "here", mark=namespace))
        listed = cluster.list(CONFIG_MAPS, label_selector=f"mark={namespace}")
        assert listed.items == [created]

    def test_pages_of_a_list_are_consistent(self, cluster: Cluster, namespace: str) -> None:
        for index in range(5):
            cluster.create(labelled(namespace, f"page-{index}", page="yes"))
        page = cluster.list(CONFIG_MAPS, namespace=namespace, label_selector="page", limit=2)
        names = [o["metadata"]["name"] for o in page]
        assert len(names) == 2
        cluster.create(labelled(namespace, "page-9", page="yes"))
        while page.continue_token:
            page = cluster.list(
                CONFIG_MAPS,
                namespace=namespace,
                label_selector="page",
                limit=2,
                continue_token=page.continue_token,
            )
            names += [o["metadata"]["name"] for o in page]
        assert names == [f"page-{index}" for index in range(5)]

    # Watching

    def test_watch_reports_changes_after_its_version(
        self, cluster: Cluster, namespace: str
    ) -> None:
        cluster.create(config_map(namespace, "before"))
        since = cluster.list(CONFIG_MAPS, namespace=namespace).resource_version
        created = cluster.create(config_map(namespace, "a"))
        cluster.replace({**created, "data": {"x": "1"}})
        cluster.delete(CONFIG_MAPS, "a", namespace=namespace)
        with cluster.watch(
            CONFIG_MAPS, namespace=namespace, resource_version=since, timeout_seconds=30
        ) as watch:
            assert first(iter(watch), 3) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]

    def test_watch_without_version_starts_with_existing_objects(
        self, cluster: Cluster, namespace: str
    ) -> None:
        cluster.create(labelled(namespace, "a", watched="yes"))
        with cluster.watch(
            CONFIG_MAPS, namespace=namespace, label_selector="watched", timeout_seconds=30
        ) as watch:
            events = iter(watch)
            assert first(events, 1) == [("ADDED", "a")]
            cluster.create(labelled(namespace, "b", watched="yes"))
            assert first(events, 1) == [("ADDED", "b")]

    def test_object_that_stops_matching_is_reported_as_deleted(
        self, cluster: Cluster, namespace: str
    ) -> None:
        since = cluster.list(CONFIG_MAPS, namespace=namespace).resource_version
        cluster.create(labelled(namespace, "a"))
        cluster.create(labelled(namespace, "b", watched="yes"))
        relabel: dict[str, Any] = {"metadata": {"labels": {"watched": "yes"}}}
        cluster.patch(CONFIG_MAPS, "a", relabel, namespace=namespace)
        relabel["metadata"]["labels"]["watched"] = None
        cluster.patch(CONFIG_MAPS, "b", relabel, namespace=namespace)
        with cluster.watch(
            CONFIG_MAPS,
            namespace=namespace,
            label_selector="watched=yes",
            resource_version=since,
            timeout_seconds=30,
        ) as watch:
            assert first(iter(watch), 3) == [("ADDED", "b"), ("ADDED", "a"), ("DELETED", "b")]

    def test_watch_of_one_name_reports_only_that_object(
        self, cluster: Cluster, namespace: str
    ) -> None:
        since = cluster.list(CONFIG_MAPS, namespace=namespace).resource_version
        with cluster.watch(
            CONFIG_MAPS,
            namespace=namespace,
            field_selector="metadata.name=b",
            resource_version=since,
            timeout_seconds=30,
        ) as watch:
            for name in "abc":
                cluster.create(config_map(namespace, name))
            cluster.delete(CONFIG_MAPS, "b", namespace=namespace)
            assert first(iter(watch), 2) == [("ADDED", "b"), ("DELETED", "b")]

    def test_watch_ends_after_its_timeout(self, cluster: Cluster, namespace: str) -> None:
        since = cluster.list(CONFIG_MAPS, namespace=namespace).resource_version
        with cluster.watch(
            CONFIG_MAPS, namespace=namespace, resource_version=since, timeout_seconds=1
        ) as watch:
            assert [event.type for event in watch] == []

    def test_bookmark_advances_the_version_of_a_quiet_watch(
        self, cluster: Cluster, namespace: str
    ) -> None:
        since = cluster.list(SECRETS, namespace=namespace).resource_version
        # The watch does not match this object, but the version of the cluster increases.
        cluster.create(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "other", "namespace": namespace},
            }
        )
        with cluster.watch(
            SECRETS,
            namespace=namespace,
            field_selector="metadata.name=quiet",
            resource_version=since,
            timeout_seconds=4,
            bookmarks=True,
        ) as watch:
            marks = [event for event in watch if event.type is EventType.BOOKMARK]
        assert marks or not self.promises_bookmarks
        for mark in marks:
            assert int(version_of(mark.object)) >= int(since)
            assert mark.object["kind"] == "Secret"
            assert mark.object["metadata"].keys() == {"resourceVersion"}

    def test_watch_can_be_closed_by_another_thread(self, cluster: Cluster, namespace: str) -> None:
        since = cluster.list(CONFIG_MAPS, namespace=namespace).resource_version
        watch = cluster.watch(CONFIG_MAPS, namespace=namespace, resource_version=since)
        seen: list[WatchEvent] = []
        reader = threading.Thread(target=lambda: seen.extend(watch))
        reader.start()
        watch.close()
        reader.join(180)
        assert not reader.is_alive()
        assert seen == []

    def test_watch_from_a_too_old_version_expires(
        self, cluster: Cluster, namespace: str, widgets: GroupVersionResource
    ) -> None:
        cluster.create(self.widget(widgets, namespace))
        self.forget_history(cluster)
        with pytest.raises(Expired) as caught:
            # The error may be raised when the watch is opened or when it is read.
            list(
                cluster.watch(widgets, namespace=namespace, resource_version="1", timeout_seconds=5)
            )
        assert "too old resource version" in caught.value.message

    def forget_history(self, cluster: Cluster) -> None:
        """Make the cluster forget its history, if it does not do so by itself."""

    # Deleting

    def test_deleted_object_is_gone(self, cluster: Cluster, namespace: str) -> None:
        cluster.create(config_map(namespace))
        cluster.delete(CONFIG_MAPS, "settings", namespace=namespace)
        with pytest.raises(NotFound):
            cluster.get(CONFIG_MAPS, "settings", namespace=namespace)
        with pytest.raises(NotFound):
            cluster.delete(CONFIG_MAPS, "settings", namespace=namespace)

    def test_finalizer_delays_the_deletion(self, cluster: Cluster, namespace: str) -> None:
        manifest = config_map(namespace)
        manifest["metadata"]["finalizers"] = ["example.org/hold"]
        cluster.create(manifest)
        cluster.delete(CONFIG_MAPS, "settings", namespace=namespace)
        held = cluster.get(CONFIG_MAPS, "settings", namespace=namespace)
        assert held["metadata"]["deletionTimestamp"]
        assert held["metadata"]["deletionGracePeriodSeconds"] == 0
        more = {"metadata": {"finalizers": ["example.org/hold", "example.org/more"]}}
        with pytest.raises(Invalid):
            cluster.patch(CONFIG_MAPS, "settings", more, namespace=namespace)
        changed = cluster.patch(
            CONFIG_MAPS, "settings", {"data": {"last": "words"}}, namespace=namespace
        )
        assert changed["data"]["last"] == "words"
        cluster.patch(
            CONFIG_MAPS, "settings", {"metadata": {"finalizers": None}}, namespace=namespace
        )
        with pytest.raises(NotFound):
            cluster.get(CONFIG_MAPS, "settings", namespace=namespace)

    def test_delete_with_another_uid_is_a_conflict(self, cluster: Cluster, namespace: str) -> None:
        created = cluster.create(config_map(namespace))
        with pytest.raises(Conflict):
            cluster.delete(CONFIG_MAPS, "settings", namespace=namespace, uid=str(uuid.uuid4()))
        with pytest.raises(Conflict):
            cluster.delete(CONFIG_MAPS, "settings", namespace=namespace, resource_version="1")
        cluster.delete(
            CONFIG_MAPS,
            "settings",
            namespace=namespace,
            uid=created["metadata"]["uid"],
            resource_version=version_of(created),
        )

    # Scale

    def test_workload_is_scaled_through_its_subresource(
        self, cluster: Cluster, namespace: str
    ) -> None:
        cluster.create(deployment(namespace))
        scale = cluster.get(DEPLOYMENTS, "web", namespace=namespace, subresource="scale")
        assert scale["kind"] == "Scale"
        assert scale["spec"]["replicas"] == 2
        assert scale["status"]["selector"] == "app=web"
        scaled = cluster.scale(DEPLOYMENTS, "web", 0, namespace=namespace)
        assert scaled["spec"].get("replicas", 0) == 0
        written = cluster.get(DEPLOYMENTS, "web", namespace=namespace)
        assert written["spec"]["replicas"] == 0
        assert written["metadata"]["generation"] == 2
        with pytest.raises(Invalid):
            cluster.scale(DEPLOYMENTS, "web", -1, namespace=namespace)

    # Custom resources

    def test_custom_resource_is_defaulted_and_pruned(
        self, cluster: Cluster, namespace: str, widgets: GroupVersionResource
    ) -> None:
        manifest = self.widget(widgets, namespace, size=3, unknown="x")
        created = cluster.create(manifest)
        assert created["spec"] == {"size": 3, "colour": "red"}
        assert created["metadata"]["generation"] == 1

    def test_invalid_custom_resource_is_rejected_with_all_paths(
        self, cluster: Cluster, namespace: str, widgets: GroupVersionResource
    ) -> None:
        with pytest.raises(Invalid) as caught:
            cluster.create(self.widget(widgets, namespace, size=0, colour="green"))
        assert {cause.field for cause in caught.value.causes} >= {"spec.size", "spec.colour"}

    @pytest.mark.parametrize(
        ("spec", "field", "why"),
        [
            pytest.param({"size": 100}, "spec.serial", "a big one has a serial", id="a condition"),
            pytest.param({"size": 99}, "spec", "nothing begins with 99", id="of a new object"),
        ],
    )
    def test_custom_resource_is_validated_with_cel_rules(
        self,
        cluster: Cluster,
        namespace: str,
        widgets: GroupVersionResource,
        spec: dict[str, Any],
        field: str,
        why: str,
    ) -> None:
        with pytest.raises(Invalid) as caught:
            cluster.create(self.widget(widgets, namespace, **spec))
        (cause,) = caught.value.causes
        assert cause.field == field
        assert why in str(cause)

    def test_transition_rules_are_evaluated_on_updates(
        self, cluster: Cluster, namespace: str, widgets: GroupVersionResource
    ) -> None:
        created = cluster.create(self.widget(widgets, namespace, size=5, serial="a"))
        bigger = cluster.patch(widgets, "w", {"spec": {"size": 99}}, namespace=namespace)
        assert bigger["spec"]["size"] == 99
        with pytest.raises(Invalid, match="smaller than it was: a"):
            cluster.patch(widgets, "w", {"spec": {"size": 1}}, namespace=namespace)
        bigger["spec"]["serial"] = "b"
        with pytest.raises(Invalid) as caught:
            cluster.replace(bigger)
        assert [cause.field for cause in caught.value.causes] == ["spec.serial"]
        assert created["metadata"]["generation"] == 1

    def test_definition_with_invalid_cel_is_rejected(self, cluster: Cluster) -> None:
        wrong = definition("sprockets")
        schema = wrong["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        schema["x-kubernetes-validations"] = [{"rule": "self.size >"}]
        with pytest.raises(Invalid) as caught:
            cluster.create(wrong)
        fields = [cause.field for cause in caught.value.causes]
        assert any(field.endswith("x-kubernetes-validations[0].rule") for field in fields)

    def test_schema_of_a_custom_kind_is_that_of_its_definition(
        self, cluster: Cluster, widgets: GroupVersionResource
    ) -> None:
        schema = published_schema(cluster, widgets)
        spec = schema["properties"]["spec"]
        assert spec["required"] == ["size"]
        assert spec["properties"]["colour"] == {
            "type": "string",
            "enum": ["red", "blue"],
            "default": "red",
        }
        assert "$ref" not in json.dumps(schema)
        assert cluster.schema_of(widgets.api_version, "Sandwich") is None

    def test_unknown_kind_has_no_schema(self, cluster: Cluster) -> None:
        assert cluster.schema_of("nobody.example.org/v1", "Widget") is None

    def test_custom_status_is_written_separately(
        self, cluster: Cluster, namespace: str, widgets: GroupVersionResource
    ) -> None:
        manifest = self.widget(widgets, namespace)
        manifest["status"] = {"phase": "Ready"}
        created = cluster.create(manifest)
        assert "status" not in created
        created["status"] = {"phase": "Ready"}
        ready = cluster.replace_status(created)
        assert ready["status"] == {"phase": "Ready"}
        assert ready["metadata"]["generation"] == 1
        ready["spec"]["size"] = 2
        assert cluster.replace(ready)["metadata"]["generation"] == 2

    def test_strategic_patch_of_a_custom_resource_is_rejected(
        self, cluster: Cluster, namespace: str, widgets: GroupVersionResource
    ) -> None:
        cluster.create(self.widget(widgets, namespace))
        with pytest.raises(UnsupportedMediaType):
            cluster.patch(
                widgets,
                "w",
                {"spec": {"size": 2}},
                namespace=namespace,
                patch_type=PatchType.STRATEGIC,
            )
        merged = cluster.patch(widgets, "w", {"spec": {"size": 2}}, namespace=namespace)
        assert merged["spec"]["size"] == 2

    def test_replacing_a_custom_resource_requires_a_version(
        self, cluster: Cluster, namespace: str, widgets: GroupVersionResource
    ) -> None:
        cluster.create(self.widget(widgets, namespace))
        with pytest.raises(Invalid):
            cluster.replace(self.widget(widgets, namespace, size=2))

    def test_apply_of_custom_resources_tracks_fields(
        self, cluster: Cluster, namespace: str, widgets: GroupVersionResource
    ) -> None:
        cluster.apply(self.widget(widgets, namespace, size=1), field_manager="one")
        with pytest.raises(ApplyConflict) as caught:
            cluster.apply(self.widget(widgets, namespace, size=2), field_manager="two")
        assert caught.value.conflicts == (("one", ".spec.size"),)
        status = self.widget(widgets, namespace)
        del status["spec"]
        status["status"] = {"phase": "Ready"}
        ready = cluster.apply(status, field_manager="two", subresource="status")
        assert ready["status"] == {"phase": "Ready"}
        assert ready["spec"]["size"] == 1
