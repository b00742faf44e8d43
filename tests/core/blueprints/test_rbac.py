from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kanister_py.core.blueprints.model import Blueprint, blueprints_in
from kanister_py.core.blueprints.rbac import needs_of_blueprint, roles_of
from kanister_py.core.objects.access import Access, merged
from kanister_py.core.objects.documents import parse_documents


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


class TestTheRolesOfABlueprint:
    def test_allow_what_its_functions_do_and_what_its_templates_see(self) -> None:
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
        # Creating names nothing: a rule with a name would allow nothing.
        assert other["rules"] == [
            {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create"]}
        ]
        assert (cluster["kind"], cluster["rules"][0]["verbs"]) == ("ClusterRole", ["delete"])
        assert "namespace" not in cluster["metadata"]

    def test_may_be_those_of_one_action_alone(self) -> None:
        needs = needs_of_blueprint(parsed(TEXT), access_of, ["delete"])
        assert [each.resource for each in needs.accesses] == ["contents"]


def test_accesses_to_the_same_objects_are_brought_together() -> None:
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
