"""Fields of ActionSets and phases that name an object, for tests with two tenants."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

PASSWORD = "V-i-c-t-i-m-s---P-a-5-5-w-o-r-d"


def manifest(kind: str, namespace: str, name: str, **fields: Any) -> dict[str, Any]:
    api_version = {"Profile": "cr.kanister.io/v1alpha1", "Deployment": "apps/v1"}.get(kind, "v1")
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def grant(*kinds: tuple[str, str], of: str = "victim") -> dict[str, Any]:
    """Return a ReferenceGrant of a namespace for the ActionSets of `mallory`."""
    opened = [{"group": group, "kind": kind} for group, kind in kinds]
    return {
        "apiVersion": "kanister-py.io/v1alpha1",
        "kind": "ReferenceGrant",
        "metadata": {"name": "opened", "namespace": of},
        "spec": {"from": [{"namespace": "mallory"}], "to": opened},
    }


def tenant(namespace: str) -> list[dict[str, Any]]:
    """Return the objects that a tenant has: a workload, its Secrets and a Profile."""
    selector = {"matchLabels": {"app": "db"}}
    template = {
        "metadata": {"labels": {"app": "db"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    return [
        manifest("Secret", namespace, "db", stringData={"password": PASSWORD}),
        manifest("ConfigMap", namespace, "db", data={"password": PASSWORD}),
        manifest("Pod", namespace, "db-0", spec=template["spec"]),
        manifest("Deployment", namespace, "db", spec={"selector": selector, "template": template}),
        manifest(
            "Profile",
            namespace,
            "store",
            location={"type": "s3Compliant", "bucket": PASSWORD},
            credential={
                "type": "keyPair",
                "keyPair": {
                    "idField": "password",
                    "secretField": "password",
                    "secret": {"name": "db", "namespace": namespace},
                },
            },
        ),
    ]


class Case(NamedTuple):
    """Field of an ActionSet or phase that names an object.

    `kinds` are the groups and kinds that a grant must allow. `needs_node` is set if the phase only
    ends where pods run.
    """

    kinds: tuple[tuple[str, str], ...]
    action: Callable[[str], Mapping[str, Any]] = lambda _: {}
    phase: Callable[[str], Mapping[str, Any]] | None = None
    needs_node: bool = False


def print_it(template: str) -> dict[str, Any]:
    """Return a phase that would write a value into the status."""
    patch = f'{{"data": {{"stolen": {template}}}}}'
    reference = {"apiVersion": "v1", "resource": "configmaps", "name": "db", "namespace": "mallory"}
    args = {"operation": "patch", "objectReference": reference, "spec": patch}
    return {"func": "KubeOps", "name": "print", "args": args}


def kube_ops(**args: Any) -> dict[str, Any]:
    return {"func": "KubeOps", "name": "ops", "args": args}


def config_map_of(namespace: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "resource": "configmaps", "name": "db", "namespace": namespace}


CONFIG_MAP = (("", "ConfigMap"),)
FIELDS = {
    "object": Case(
        (("apps", "Deployment"), ("apps", "ReplicaSet"), ("", "Pod")),
        lambda where: {"object": {"kind": "Deployment", "name": "db", "namespace": where}},
        lambda _: print_it('"{{ .Deployment.Name }}"'),
    ),
    "object-by-resource": Case(
        (("", "Secret"),),
        lambda where: {
            "object": {"apiVersion": "v1", "resource": "secrets", "name": "db", "namespace": where}
        },
        lambda _: print_it("{{ .Object.data.password | toJson }}"),
    ),
    "secrets": Case(
        (("", "Secret"),),
        lambda where: {"secrets": {"s": {"name": "db", "namespace": where}}},
        lambda _: print_it('{{ index .Secrets.s.Data "password" | toString | toJson }}'),
    ),
    "configMaps": Case(
        CONFIG_MAP,
        lambda where: {"configMaps": {"c": {"name": "db", "namespace": where}}},
        lambda _: print_it("{{ .ConfigMaps.c.Data.password | toJson }}"),
    ),
    "profile": Case(
        (("cr.kanister.io", "Profile"), ("", "Secret")),
        lambda where: {"profile": {"name": "store", "namespace": where}},
        lambda _: print_it("{{ .Profile.Location.Bucket | toJson }}"),
    ),
    "phase-objects": Case(
        (("", "Secret"),),
        phase=lambda where: {
            **print_it('{{ index .Phases.print.Secrets.s.Data "password" | toString | toJson }}'),
            "objects": {"s": {"kind": "Secret", "name": "db", "namespace": where}},
        },
    ),
    "KubeOps-patch": Case(
        CONFIG_MAP,
        phase=lambda where: kube_ops(
            operation="patch", objectReference=config_map_of(where), spec='{"data": {"a": "b"}}'
        ),
    ),
    "KubeOps-delete": Case(
        CONFIG_MAP,
        phase=lambda where: kube_ops(operation="delete", objectReference=config_map_of(where)),
    ),
    "KubeOps-create": Case(
        CONFIG_MAP,
        phase=lambda where: kube_ops(
            operation="create",
            spec=json.dumps(manifest("ConfigMap", where, "new")),
        ),
    ),
    "KubeOps-namespace": Case(
        CONFIG_MAP,
        phase=lambda where: kube_ops(
            operation="create",
            namespace=where,
            spec="{apiVersion: v1, kind: ConfigMap, metadata: {name: new}}",
        ),
    ),
    "KubeTask": Case(
        (("", "Pod"),),
        phase=lambda where: {
            "func": "KubeTask",
            "name": "task",
            "args": {"namespace": where, "image": "i", "command": ["true"]},
        },
        needs_node=True,
    ),
    "KubeExec": Case(
        (("", "Pod"),),
        phase=lambda where: {
            "func": "KubeExec",
            "name": "exec",
            "args": {"namespace": where, "pod": "db-0", "container": "c", "command": ["true"]},
        },
        needs_node=True,
    ),
    "ScaleWorkload": Case(
        (("apps", "Deployment"), ("apps", "ReplicaSet"), ("", "Pod")),
        phase=lambda where: {
            "func": "ScaleWorkload",
            "name": "scale",
            "args": {
                "namespace": where,
                "name": "db",
                "kind": "Deployment",
                "replicas": 0,
                "waitForReady": False,
            },
        },
    ),
    "Wait": Case(
        CONFIG_MAP,
        phase=lambda where: {
            "func": "Wait",
            "name": "wait",
            "args": {
                "timeout": "1s",
                "conditions": {
                    "anyOf": [
                        {
                            "condition": '{{ if eq "{ $.data.password }" "x" }}true{{ end }}',
                            "objectReference": config_map_of(where),
                        }
                    ]
                },
            },
        },
    ),
}
NOTHING = kube_ops(
    operation="create",
    spec="{apiVersion: v1, kind: ConfigMap, metadata: {name: none, namespace: mallory}}",
)
