"""Objects that a blueprint creates, deletes or patches."""

from __future__ import annotations

from typing import Any

import pytest

from kanister_py.core.errors import (
    AlreadyExists,
    NotFound,
    RunCancelled,
    UnsupportedMediaType,
)
from kanister_py.core.kube.managed_fields import ApplyConflict
from kanister_py.core.kube.resources import (
    BLUEPRINTS,
    CONFIG_MAPS,
    GroupVersionResource,
)
from kanister_py.core.yaml.weak import InvalidArgs
from kanister_py.functions.blueprint.kube_ops.v0_0_0 import (
    KubeOps,
)
from kanister_py.functions.blueprint.kube_ops.v0_1_0 import KubeOpsV010
from kanister_py.ports.function import Func
from tests.functions.blueprint.api_calls import Api
from tests.raising import refused_as

BOTH = pytest.mark.parametrize("kube_ops", [KubeOps, KubeOpsV010])


def config_map(name: str, **data: str) -> str:
    pairs = "".join(f"  {key}: {value}\n" for key, value in data.items())
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n{pairs}"


def reference(resource: GroupVersionResource, name: str, **rest: str) -> dict[str, str]:
    return {
        "apiVersion": resource.version,
        "group": resource.group,
        "resource": resource.resource,
        "name": name,
        **rest,
    }


def data_of(api: Api, name: str, namespace: str = "default") -> Any:
    return api.cluster.get(CONFIG_MAPS, name, namespace=namespace).get("data")


# Create


@BOTH
def test_output_names_the_last_document(kube_ops: type[Func]) -> None:
    api = Api()
    spec = f"{config_map('one', a='b')}---\n{config_map('two', c='d')}"
    output = api.call(kube_ops, {"operation": "create", "spec": spec, "namespace": "db"})
    assert output == {**reference(CONFIG_MAPS, "two", namespace="db"), "kind": ""}
    assert data_of(api, "one", "db") == {"a": "b"}


@BOTH
def test_items_of_a_list_are_created(kube_ops: type[Func]) -> None:
    api = Api()
    item = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "inside"}}
    spec = str({"apiVersion": "v1", "kind": "List", "items": [item]})
    assert api.call(kube_ops, {"operation": "create", "spec": spec})["name"] == "inside"


@BOTH
def test_created_objects_have_a_run_label_and_no_owner(
    kube_ops: type[Func],
) -> None:
    api = Api()
    api.call(kube_ops, {"operation": "create", "spec": config_map("made", a="b")})
    metadata = api.cluster.get(CONFIG_MAPS, "made", namespace="default")["metadata"]
    assert "ownerReferences" not in metadata
    assert list(metadata["labels"]) == ["kanister-py.io/run"]


@BOTH
def test_cluster_scoped_object_gets_no_namespace(kube_ops: type[Func]) -> None:
    api = Api()
    spec = (
        "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: fast}\nprovisioner: x"
    )
    output = api.call(kube_ops, {"operation": "create", "spec": spec, "namespace": "db"})
    assert (output["name"], output["namespace"], output["group"]) == ("fast", "", "storage.k8s.io")


def test_namespace_of_a_document_applies_to_later_ones_only_in_v0_0_0() -> None:
    first = config_map("one", a="b").replace("name: one", "name: one\n  namespace: far")
    spec = f"{first}---\n{config_map('two', a='b')}"
    for kube_ops, where in ((KubeOps, "far"), (KubeOpsV010, "db")):
        output = Api().call(kube_ops, {"operation": "create", "spec": spec, "namespace": "db"})
        assert output["namespace"] == where


def test_existing_object_fails_v0_0_0_and_is_updated_by_v0_1_0() -> None:
    api = Api()
    api.add("v1", "ConfigMap", "src", data={"k": "v"})
    create = {"operation": "create", "spec": config_map("src", more="x")}
    with pytest.raises(AlreadyExists, match='configmaps "src" already exists'):
        api.call(KubeOps, create)
    api.call(KubeOpsV010, create)
    assert data_of(api, "src") == {"k": "v", "more": "x"}


def test_field_of_another_manager_requires_force() -> None:
    api = Api()
    api.add("v1", "ConfigMap", "src", data={"k": "v"})
    create = {"operation": "create", "spec": config_map("src", k="mine")}
    with pytest.raises(ApplyConflict):
        api.call(KubeOpsV010, create)
    assert data_of(api, "src") == {"k": "v"}
    api.call(KubeOpsV010, {**create, "force": True})
    assert data_of(api, "src") == {"k": "mine"}


@BOTH
def test_resumed_create_finds_its_objects(kube_ops: type[Func]) -> None:
    api = Api()
    spec = config_map("made", a="b")
    create = {"operation": "create", "spec": spec.replace("name: made", "generateName: made-")}
    first = api.call(kube_ops, create)
    assert api.call(kube_ops, create, is_resumed=True) == first
    assert len(api.cluster.list(CONFIG_MAPS, namespace="default")) == 1
    named = {"operation": "create", "spec": spec}
    assert api.call(kube_ops, named) == api.call(kube_ops, named, is_resumed=True)


def test_retry_continues_after_the_last_created_object() -> None:
    api = Api()
    api.add("v1", "ConfigMap", "two", data={"k": "v"})
    create = {"operation": "create", "spec": f"{config_map('one')}---\n{config_map('two')}"}
    with pytest.raises(AlreadyExists, match="two"):
        api.call(KubeOps, create)
    api.cluster.delete(CONFIG_MAPS, "two", namespace="default")
    assert api.call(KubeOps, create, attempt=2)["name"] == "two"


def test_object_of_another_run_is_an_error() -> None:
    api = Api()
    create = {"operation": "create", "spec": config_map("made", a="b")}
    api.call(KubeOps, create)
    with pytest.raises(AlreadyExists):
        api.call(KubeOps, create, uid="uid-2")


def test_spec_may_be_a_map_or_list_in_v0_1_0() -> None:
    api = Api()
    one = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}}
    two = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "two"}, "data": {"a": "b"}}
    assert api.call(KubeOpsV010, {"operation": "create", "spec": one})["name"] == "one"
    assert api.call(KubeOpsV010, {"operation": "create", "spec": [one, two]})["name"] == "two"
    with pytest.raises(InvalidArgs):
        api.call(KubeOps, {"operation": "create", "spec": one})


# Delete


@BOTH
def test_delete_waits_until_the_object_is_gone(kube_ops: type[Func]) -> None:
    api = Api()
    api.add("v1", "ConfigMap", "held", metadata={"finalizers": ["test/hold"]})
    delete = {
        "operation": "delete",
        "namespace": "elsewhere",
        "objectReference": reference(CONFIG_MAPS, "held", namespace="default"),
    }
    with api.waiting(kube_ops, delete) as called:
        held = api.cluster.get(CONFIG_MAPS, "held", namespace="default")
        assert held["metadata"]["deletionTimestamp"]
        api.cluster.patch(
            CONFIG_MAPS, "held", {"metadata": {"finalizers": None}}, namespace="default"
        )
        assert called.result() == {
            **reference(CONFIG_MAPS, "held", namespace="default"),
            "kind": "",
        }


@BOTH
def test_delete_can_be_cancelled(kube_ops: type[Func]) -> None:
    api = Api()
    api.add("v1", "ConfigMap", "held", metadata={"finalizers": ["test/hold"]})
    delete = {"operation": "delete", "objectReference": reference(CONFIG_MAPS, "held")}
    with api.waiting(kube_ops, delete) as called:
        called.cancel()
        with pytest.raises(RunCancelled):
            called.result()


@BOTH
def test_missing_object_cannot_be_deleted_unless_resumed(
    kube_ops: type[Func],
) -> None:
    api = Api()
    delete = {"operation": "delete", "objectReference": reference(CONFIG_MAPS, "gone")}
    with pytest.raises(NotFound, match='configmaps "gone" not found'):
        api.call(kube_ops, delete)
    assert api.call(kube_ops, delete, is_resumed=True)["name"] == "gone"


def test_only_v0_1_0_deletes_cluster_scoped_objects() -> None:
    api, classes = Api(), GroupVersionResource("storage.k8s.io", "v1", "storageclasses")
    api.add("storage.k8s.io/v1", "StorageClass", "fast", provisioner="x")
    delete = {"operation": "delete", "objectReference": reference(classes, "fast")}
    with pytest.raises(NotFound, match="could not find the requested resource"):
        api.call(KubeOps, delete)
    assert api.call(KubeOpsV010, delete)["namespace"] == ""
    assert not api.cluster.list(classes).items


def test_v0_1_0_finds_a_resource_by_its_kind() -> None:
    api = Api()
    api.add("networking.k8s.io/v1", "NetworkPolicy", "web", spec={"podSelector": {}})
    where = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "name": "web"}
    output = api.call(KubeOpsV010, {"operation": "delete", "objectReference": where})
    assert output == {
        "apiVersion": "v1",
        "group": "networking.k8s.io",
        "resource": "networkpolicies",
        "kind": "",
        "name": "web",
        "namespace": "default",
    }


# Patch


def test_a_patch_changes_part_of_an_object() -> None:
    for kube_ops, spec in ((KubeOps, "data: {more: '1'}"), (KubeOpsV010, {"data": {"more": "1"}})):
        api = Api()
        api.add("v1", "ConfigMap", "src", data={"k": "v"})
        where = reference(CONFIG_MAPS, "src", namespace="default")
        output = api.call(kube_ops, {"operation": "patch", "objectReference": where, "spec": spec})
        assert output == {**where, "kind": ""}
        assert data_of(api, "src") == {"k": "v", "more": "1"}


def test_only_v0_1_0_patches_custom_resources() -> None:
    api = Api()
    api.add("cr.kanister.io/v1alpha1", "Blueprint", "mine", actions={"a": {"phases": []}})
    patch = {
        "operation": "patch",
        "objectReference": reference(BLUEPRINTS, "mine", namespace="default"),
        "spec": "actions: {b: {phases: []}}",
    }
    with pytest.raises(UnsupportedMediaType):
        api.call(KubeOps, patch)
    api.call(KubeOpsV010, patch)
    patched = api.cluster.get(BLUEPRINTS, "mine", namespace="default")
    assert sorted(patched["actions"]) == ["a", "b"]


def test_v0_0_0_patches_only_in_the_namespace_of_the_reference() -> None:
    api = Api()
    api.add("v1", "ConfigMap", "src", metadata={"namespace": "db"}, data={"k": "v"})
    patch = {
        "operation": "patch",
        "namespace": "db",
        "objectReference": reference(CONFIG_MAPS, "src"),
        "spec": "data: {k: w}",
    }
    with pytest.raises(NotFound):
        api.call(KubeOps, patch)
    assert api.call(KubeOpsV010, patch)["namespace"] == "db"


# Rejections


@BOTH
@pytest.mark.parametrize(
    ("args", "reason", "message"),
    [
        pytest.param(
            {"operation": "smash", "spec": "a: b"},
            "InvalidOperation",
            "Invalid operation 'smash'; use create, delete, patch",
            id="an operation nobody knows",
        ),
        pytest.param(
            {"operation": "create"},
            "IncompleteOperation",
            "Operation create needs spec",
            id="nothing to create",
        ),
        pytest.param(
            {"operation": "create", "spec": "just text"},
            "InvalidDocument",
            "Wants an object, found",
            id="text that is no object",
        ),
        pytest.param(
            {"operation": "create", "spec": "a: [b"},
            "InvalidDocument",
            "Not valid YAML",
            id="text that is no YAML",
        ),
        pytest.param(
            {"operation": "delete", "objectReference": {"name": "x"}},
            "IncompleteOperation",
            "Operation delete needs objectReference.apiVersion, objectReference.resource",
            id="a reference that says too little",
        ),
        pytest.param(
            {"operation": "create", "spec": "{apiVersion: v1, kind: Nothing}"},
            "NoKindMatch",
            'no matches for kind "Nothing"',
            id="a kind nobody knows",
        ),
    ],
)
def test_invalid_operation_is_rejected(
    kube_ops: type[Func], args: dict[str, Any], reason: str, message: str
) -> None:
    with refused_as(reason) as caught:
        Api().call(kube_ops, args)
    assert message in str(caught.value)
