"""Catalogue of the kinds that the embedded cluster serves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from kanister_py.core.errors import Cause, NoMatch
from kanister_py.core.kube import names
from kanister_py.core.kube.merge_rules import (
    MergeRule,
    merge_rules_of,
    merge_rules_of_custom,
)
from kanister_py.core.kube.parts import spec_of
from kanister_py.core.kube.resources import (
    BUILTIN_KINDS,
    WELL_KNOWN_CUSTOM_KINDS,
    GroupVersionResource,
    ResourceKind,
    group_version_of,
    guess_plural,
)
from kanister_py.ports.cluster import KubeObject

# Built-in kinds whose `generation` is incremented when their spec changes.
_COUNTED: Final = frozenset(
    {
        "Pod",
        "ReplicationController",
        "Deployment.apps",
        "StatefulSet.apps",
        "ReplicaSet.apps",
        "DaemonSet.apps",
        "Job.batch",
        "CronJob.batch",
        "Ingress.networking.k8s.io",
        "IngressClass.networking.k8s.io",
        "NetworkPolicy.networking.k8s.io",
        "PodDisruptionBudget.policy",
        "CustomResourceDefinition.apiextensions.k8s.io",
        "MutatingWebhookConfiguration.admissionregistration.k8s.io",
        "ValidatingWebhookConfiguration.admissionregistration.k8s.io",
        "PriorityClass.scheduling.k8s.io",
    }
)


class KindEntry(NamedTuple):
    """One served version of a kind."""

    kind: ResourceKind
    rules: MergeRule
    schema: Mapping[str, Any] | None = None
    selectable: tuple[str, ...] = ()
    scale_paths: Mapping[str, str] = MappingProxyType({})
    definition: str = ""
    is_guessed: bool = False
    has_rules: bool = False

    @property
    def key(self) -> tuple[str, str]:
        return (self.kind.gvr.group, self.kind.gvr.resource)

    @property
    def is_counted(self) -> bool:
        return not self.kind.is_builtin or self.kind.group_kind in _COUNTED


class Catalogue:
    """All served kinds, by resource and by kind.

    The caller holds the cluster's lock when it changes them.
    """

    def __init__(self) -> None:
        self._by_gvr: dict[GroupVersionResource, KindEntry] = {}
        self._by_kind: dict[tuple[str, str], KindEntry] = {}
        for kind in BUILTIN_KINDS:
            self._add(
                KindEntry(kind, merge_rules_of(kind.gvr.api_version, kind.kind) or MergeRule())
            )
        for kind in WELL_KNOWN_CUSTOM_KINDS:
            self._add(KindEntry(kind, merge_rules_of_custom(None), scale_paths=_SCALE_PATHS))

    def _add(self, entry: KindEntry) -> None:
        self._by_gvr[entry.kind.gvr] = entry
        self._by_kind[entry.kind.gvr.api_version, entry.kind.kind] = entry

    def at(self, gvr: GroupVersionResource) -> KindEntry:
        entry = self._by_gvr.get(gvr)
        if entry is None:
            raise NoMatch(
                f"the server could not find the requested resource ({gvr})",
                resource=gvr.group_resource,
            )
        return entry

    def of(self, api_version: str, kind: str) -> KindEntry:
        entry = self._by_kind.get((api_version, kind))
        if entry is None:
            raise NoMatch(f'no matches for kind "{kind}" in version "{api_version}"')
        return entry

    def __iter__(self) -> Iterator[KindEntry]:
        return iter(list(self._by_gvr.values()))

    def guess(self, api_version: str, kind: str) -> KindEntry:
        """Serve an undefined kind as namespaced, with a guessed plural."""
        group, version = group_version_of(api_version)
        gvr = GroupVersionResource(group, version, guess_plural(kind))
        entry = KindEntry(
            ResourceKind(gvr, kind, is_builtin=False),
            merge_rules_of_custom(None),
            is_guessed=True,
        )
        self._add(entry)
        return entry

    def define(self, definition: KubeObject) -> list[KindEntry]:
        """Serve the versions of a CustomResourceDefinition, in place of its previous ones."""
        self.undefine(definition["metadata"]["name"])
        spec = definition["spec"]
        names_of_kind = spec["names"]
        added = []
        for version in spec.get("versions") or ():
            if not version.get("served"):
                continue
            subresources = version.get("subresources") or {}
            schema = (version.get("schema") or {}).get("openAPIV3Schema")
            kind = ResourceKind(
                GroupVersionResource(spec["group"], version["name"], names_of_kind["plural"]),
                names_of_kind["kind"],
                is_namespaced=spec.get("scope") == "Namespaced",
                has_status="status" in subresources,
                has_scale="scale" in subresources,
                short_names=tuple(names_of_kind.get("shortNames") or ()),
                is_builtin=False,
            )
            added.append(
                KindEntry(
                    kind,
                    merge_rules_of_custom(schema),
                    schema,
                    tuple(
                        entry["jsonPath"].lstrip(".")
                        for entry in version.get("selectableFields") or ()
                    ),
                    subresources.get("scale") or {},
                    definition["metadata"]["name"],
                    has_rules=_has_rules(schema),
                )
            )
        for entry in added:
            self._add(entry)
        return added

    def undefine(self, definition: str) -> None:
        """Stop serving the versions of a CustomResourceDefinition."""
        for entry in list(self._by_gvr.values()):
            if entry.definition == definition:
                del self._by_gvr[entry.kind.gvr]
                self._by_kind.pop((entry.kind.gvr.api_version, entry.kind.kind), None)


_SCALE_PATHS: Final = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
}


# Definitions themselves

_SCOPES: Final = ("Cluster", "Namespaced")


def set_definition_defaults(definition: KubeObject) -> None:
    """Set the defaults of a CustomResourceDefinition in place, as an API server does."""
    spec = definition.get("spec")
    names_of_kind = spec.get("names") if isinstance(spec, dict) else None
    if spec and isinstance(names_of_kind, dict) and names_of_kind.get("kind"):
        names_of_kind.setdefault("singular", names_of_kind["kind"].lower())
        names_of_kind.setdefault("listKind", f"{names_of_kind['kind']}List")
        spec.setdefault("conversion", {"strategy": "None"})


def definition_problems(definition: KubeObject) -> list[Cause]:
    """Return all problems of a CustomResourceDefinition."""
    spec = spec_of(definition)
    names_of_kind = spec.get("names") or {}
    versions: Sequence[Mapping[str, Any]] = spec.get("versions") or ()
    causes = [
        Cause(f"spec.{path}", "Required value", "FieldValueRequired")
        for path, value in (
            ("group", spec.get("group")),
            ("scope", spec.get("scope")),
            ("names.plural", names_of_kind.get("plural")),
            ("names.kind", names_of_kind.get("kind")),
            ("versions", versions),
        )
        if not value
    ]
    if causes:
        return causes
    name, want = definition["metadata"]["name"], f"{names_of_kind['plural']}.{spec['group']}"
    scope = spec["scope"]
    stored = sum(1 for version in versions if version.get("storage"))
    not_dns = names.dns_1035_label_problem(names_of_kind["plural"])
    wrong = (
        ("metadata.name", f'"{name}": must be spec.names.plural+"."+spec.group', name != want),
        ("spec.scope", f'"{scope}": must be Cluster or Namespaced', scope not in _SCOPES),
        ("spec.names.plural", f'"{names_of_kind["plural"]}": {not_dns}', not_dns),
        ("spec.versions", "must have exactly one version marked as storage version", stored != 1),
    )
    causes += [Cause(path, f"Invalid value: {why}") for path, why, is_so in wrong if is_so]
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}].schema.openAPIV3Schema"
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if not schema:
            causes.append(Cause(path, "Required value: schemas are required", "FieldValueRequired"))
        elif _has_rules(schema):
            # Few kinds have rules, and CEL takes time to load.
            from kanister_py.core.kube.crd_rules import unreadable_rules

            causes += unreadable_rules(schema, path)
    return causes


def _has_rules(schema: Any) -> bool:
    if isinstance(schema, list):
        return any(map(_has_rules, schema))
    if not isinstance(schema, Mapping):
        return False
    return "x-kubernetes-validations" in schema or any(map(_has_rules, schema.values()))


def status_of_definition(definition: KubeObject, now: str) -> dict[str, Any]:
    """Return the status of an established CustomResourceDefinition."""
    spec = definition["spec"]
    return {
        "acceptedNames": dict(spec["names"]),
        "storedVersions": [v["name"] for v in spec["versions"] if v.get("storage")],
        "conditions": [
            {
                "type": type_,
                "status": "True",
                "reason": reason,
                "message": message,
                "lastTransitionTime": now,
            }
            for type_, reason, message in (
                ("NamesAccepted", "NoConflicts", "no conflicts found"),
                ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
            )
        ],
    }
