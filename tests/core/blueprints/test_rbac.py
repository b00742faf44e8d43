from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from kanister_py.core.blueprints.model import Blueprint, blueprints_in
from kanister_py.core.blueprints.rbac import Target, needs_of_blueprint, roles_of
from kanister_py.core.kube.access import Access, merged
from kanister_py.core.yaml.documents import parse_documents


def parsed(text: str) -> Blueprint:
    return blueprints_in(parse_documents(text))[0].blueprint


def access_of(function: str, version: str, args: Mapping[str, Any]) -> Iterable[Access] | None:
    namespace = str(args.get("namespace", ""))
    if function == "Exec":
        return [Access("", "pods/exec", ("create",), namespace, str(args.get("pod", "")))]
    if function == "Scale":
        return [Access("apps", "deployments", ("get", "update"), namespace, args["name"])]
    if function == "DeleteContent":
        return [Access("snapshot.example.org", "contents", ("delete",), is_cluster_wide=True)]
    return None


TEXT = """\
kind: Blueprint
metadata: {name: b}
actions:
  backup:
    kind: Deployment
    phases:
    - {func: Exec, name: a, args: {namespace: "{{ .Deployment.Namespace }}", pod: "{{ .Time }}"}}
    - {func: Scale, name: b, args: {namespace: "{{ .Deployment.Namespace }}", name: web}}
    - func: Exec
      name: c
      args: {namespace: other, pod: db-0}
      objects: {keys: {kind: Secret, name: keys, namespace: "{{ .Deployment.Namespace }}"}}
  delete:
    phases: [{func: DeleteContent, name: d}, {func: Mystery, name: e}]
"""


class TestRolesOfABlueprint:
    def test_allow_the_accesses_of_functions_and_templates(self) -> None:
        needs = needs_of_blueprint(parsed(TEXT), access_of)
        assert needs.silent_functions == ("Mystery",)
        own, other, cluster = roles_of(needs, "runner", "shop")
        assert own["metadata"] == {"name": "runner", "namespace": "shop"}
        assert own["rules"] == [
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
            {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create"]},
            {
                "apiGroups": [""],
                "resources": ["secrets"],
                "verbs": ["get"],
                "resourceNames": ["keys"],
            },
            {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get"]},
            {
                "apiGroups": ["apps"],
                "resources": ["deployments"],
                "verbs": ["update"],
                "resourceNames": ["web"],
            },
            {"apiGroups": ["apps"], "resources": ["replicasets"], "verbs": ["list"]},
        ]
        assert other["metadata"] == {"name": "runner", "namespace": "other"}
        # Requests for creation contain no name, so a rule with a name would refuse them.
        assert other["rules"] == [
            {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create"]}
        ]
        assert (cluster["kind"], cluster["rules"][0]["verbs"]) == ("ClusterRole", ["delete"])
        assert "namespace" not in cluster["metadata"]

    def test_can_be_limited_to_one_action(self) -> None:
        needs = needs_of_blueprint(parsed(TEXT), access_of, ["delete"])
        assert [access.resource for access in needs.accesses] == ["contents"]

    @pytest.mark.parametrize(
        ("reference", "expected"),
        [
            pytest.param(
                {"kind": "StatefulSet"},
                ["list pods in shop", "get statefulsets.apps db in shop"],
                id="a StatefulSet, with its pods",
            ),
            pytest.param(
                {"kind": "Deployment"},
                [
                    "list pods in shop",
                    "get deployments.apps db in shop",
                    "list replicasets.apps in shop",
                ],
                id="a Deployment, with its ReplicaSets and pods",
            ),
            pytest.param(
                {"kind": "DeploymentConfig"},
                [
                    "list pods in shop",
                    "list replicationcontrollers in shop",
                    "get deploymentconfigs.apps.openshift.io db in shop",
                ],
                id="a DeploymentConfig",
            ),
            pytest.param({"kind": "PVC"}, ["get persistentvolumeclaims db in shop"], id="a claim"),
            pytest.param({"kind": "Namespace"}, ["get namespaces db"], id="a namespace"),
            pytest.param(
                {"group": "acme.org", "apiVersion": "v1", "resource": "things"},
                ["get things.acme.org db in shop"],
                id="any other kind",
            ),
        ],
    )
    def test_allow_reading_the_object_and_its_details(
        self, reference: Mapping[str, str], expected: list[str]
    ) -> None:
        empty = parsed("kind: Blueprint\nmetadata: {name: b}\nactions: {a: {phases: []}}\n")
        target = Target(
            {**reference, "name": "db", "namespace": "shop"}, reference.get("kind") != "Namespace"
        )
        needs = needs_of_blueprint(empty, access_of, target=target)
        assert [str(access) for access in needs.accesses] == expected

    def test_are_for_the_namespace_of_the_target(self) -> None:
        target = Target({"kind": "Deployment", "name": "web", "namespace": "shop"})
        needs = needs_of_blueprint(parsed(TEXT), access_of, ["backup"], target)
        own, other = roles_of(needs, "runner", "default")
        assert own["metadata"]["namespace"] == "other"
        assert other["metadata"]["namespace"] == "shop"
        assert {"create"} in [set(rule["verbs"]) for rule in other["rules"]]
        # No rule allows reading other objects.
        assert not [
            rule
            for rule in other["rules"]
            if "get" in rule["verbs"] and "resourceNames" not in rule
        ]

    def test_name_the_actions_that_read_an_object_of_an_unknown_kind(self) -> None:
        text = TEXT.replace("name: d}", "name: d, args: {a: '{{ .Object.spec.a }}'}}")
        assert needs_of_blueprint(parsed(text), access_of).objectless_actions == ("delete",)
        target = Target({"kind": "PVC", "name": "a", "namespace": "b"})
        assert not needs_of_blueprint(parsed(text), access_of, target=target).objectless_actions

    def test_use_the_kind_of_an_action(self) -> None:
        text = TEXT.replace("kind: Deployment", "kind: PVC")
        needs = needs_of_blueprint(parsed(text), access_of, ["backup"])
        assert "persistentvolumeclaims" in [access.resource for access in needs.accesses]


def test_accesses_to_the_same_objects_are_merged() -> None:
    assert merged(
        [
            Access("", "pods", ("get",), name="a"),
            Access("", "pods", ("delete", "create")),
            Access("", "pods", ("get",)),
            Access("", "pods", ("watch", "delete"), name="a"),
        ]
    ) == [
        Access("", "pods", ("get", "create", "delete")),
        Access("", "pods", ("watch",), name="a"),
    ]
