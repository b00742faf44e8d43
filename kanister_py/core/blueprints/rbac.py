"""Minimal RBAC roles for a Blueprint."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kanister_py.core.blueprints.model import Action, Blueprint
from kanister_py.core.blueprints.reads import engine_of, reads_of_action
from kanister_py.core.kube.access import Access, merged
from kanister_py.core.kube.resources import PODS, GroupVersionResource
from kanister_py.core.templates.engines import is_template
from kanister_py.core.templates.facts import ROOT_BY_KIND, needs_of

# Accesses for objects that templates read, by top-level parameter.
_ACCESSES_BY_ROOT: Final[Mapping[str, tuple[Access, ...]]] = {
    "StatefulSet": (Access("apps", "statefulsets", ("get",)), Access("", "pods", ("get", "list"))),
    "Deployment": (
        Access("apps", "deployments", ("get",)),
        Access("apps", "replicasets", ("list",)),
        Access("", "pods", ("get", "list")),
    ),
    "DeploymentConfig": (
        Access("apps.openshift.io", "deploymentconfigs", ("get",)),
        Access("", "replicationcontrollers", ("list",)),
        Access("", "pods", ("get", "list")),
    ),
    "PVC": (Access("", "persistentvolumeclaims", ("get",)),),
    "Namespace": (Access("", "namespaces", ("get",), is_cluster_wide=True),),
    "ConfigMaps": (Access("", "configmaps", ("get",)),),
    "Secrets": (Access("", "secrets", ("get",)),),
    "Profile": (Access("cr.kanister.io", "profiles", ("get",)), Access("", "secrets", ("get",))),
}
# Template for the namespace of the ActionSet's object.
_OBJECT_NAMESPACE: Final = re.compile(
    r"\{\{-?\s*\.?"
    r"((StatefulSet|Deployment|DeploymentConfig|PVC)\.Namespace"
    r"|Namespace\.Name|Object\.metadata\.namespace)"
    r"\s*-?\}\}"
)
_OBJECT_KINDS: Final = {"secret": "secrets", "configmap": "configmaps"}


class Needs(NamedTuple):
    """Accesses of a Blueprint, functions without declared accesses, and actions that need a target.

    `objectless_actions` read an object whose kind is unknown without an ActionSet.
    """

    accesses: tuple[Access, ...]
    silent_functions: tuple[str, ...]
    objectless_actions: tuple[str, ...] = ()


class Target(NamedTuple):
    """Object of an ActionSet, as an object reference, and whether its kind is namespaced."""

    reference: Mapping[str, Any]
    is_namespaced: bool = True

    @property
    def resource(self) -> GroupVersionResource:
        return needs_of(self.reference).object.resource

    @property
    def namespace(self) -> str:
        return str(self.reference.get("namespace") or "") if self.is_namespaced else ""

    @property
    def root(self) -> str:
        """Top-level parameter with details about objects of this kind; empty for most kinds."""
        return ROOT_BY_KIND.get(str(self.reference.get("kind") or "").lower(), "")


AccessOf = Callable[[str, str, Mapping[str, Any]], Iterable[Access] | None]
"""Returns the accesses of a function by name, requested version and arguments; None if unknown."""


def needs_of_blueprint(
    blueprint: Blueprint,
    access_of: AccessOf,
    only: Sequence[str] = (),
    target: Target | None = None,
) -> Needs:
    """Collect the accesses of all actions of a Blueprint, or of the actions in `only`.

    With a `target`, the accesses for reading that object are always included.
    """
    needed: list[Access] = [] if target is None else list(accesses_to(target))
    silent: dict[str, None] = {}
    objectless: list[str] = []
    engine = engine_of(blueprint).engine
    for name, action in blueprint.actions.items():
        if only and name not in only:
            continue
        roots = _roots_of(action, engine)
        if target is None and "Object" in roots and roots.isdisjoint(ROOT_BY_KIND.values()):
            objectless.append(name)
        if target is not None:
            roots.discard(target.root)
        for root in sorted(roots):
            needed += _ACCESSES_BY_ROOT.get(root, ())
        for _path, phase in action.every_phase():
            for reference in phase.objects.values():
                resource = _OBJECT_KINDS.get(reference.kind.lower())
                if resource:
                    needed.append(
                        Access("", resource, ("get",), reference.namespace, reference.name)
                    )
            declared = access_of(phase.func, phase.func_version, phase.args)
            if declared is None:
                silent.setdefault(phase.func)
            else:
                needed += declared
    accesses = merged(_known_part(access, target) for access in needed)
    return Needs(tuple(accesses), tuple(silent), tuple(objectless))


def accesses_to(target: Target) -> Iterator[Access]:
    """Yield the accesses for reading the object of an ActionSet and its details for templates."""
    needs = needs_of(target.reference)
    resource, where = needs.object.resource, target.namespace
    is_cluster_wide = not target.is_namespaced
    name = needs.object.name
    yield Access(resource.group, resource.resource, ("get",), where, name, is_cluster_wide)
    if needs.owners is not None:
        yield Access(needs.owners.group, needs.owners.resource, ("list",), where)
    if needs.workload is not None:
        yield Access(PODS.group, PODS.resource, ("list",), where)


def _roots_of(action: Action, engine: Any) -> set[str]:
    roots = {ROOT_BY_KIND[action.kind.lower()]} if action.kind.lower() in ROOT_BY_KIND else set()
    return roots | {read.names[0] for read in reads_of_action(action, engine)}


def _known_part(access: Access, target: Target | None) -> Access:
    """Remove names and namespaces that are only known at run time.

    A removed namespace means the namespace of the run. The namespace of the target is known.
    """
    namespace = access.namespace
    if target is not None and _OBJECT_NAMESPACE.fullmatch(namespace.strip()):
        namespace = str(target.reference.get("namespace") or "")
    return access._replace(
        namespace="" if is_template(namespace) else namespace,
        name="" if is_template(access.name) else access.name,
    )


def roles_of(needs: Needs, name: str, namespace: str = "") -> list[dict[str, Any]]:
    """Build the smallest roles: one for each namespace, and one for the cluster."""
    by_place: dict[tuple[bool, str], list[Access]] = {}
    for access in needs.accesses:
        place = (access.is_cluster_wide, "" if access.is_cluster_wide else access.namespace)
        by_place.setdefault(place, []).append(access)
    return [
        _role(name, is_cluster_wide, where or namespace, accesses)
        for (is_cluster_wide, where), accesses in sorted(by_place.items())
    ]


def _role(
    name: str, is_cluster_wide: bool, namespace: str, accesses: Sequence[Access]
) -> dict[str, Any]:
    metadata = {"name": name}
    if namespace and not is_cluster_wide:
        metadata["namespace"] = namespace
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole" if is_cluster_wide else "Role",
        "metadata": metadata,
        "rules": [*_rules(accesses)],
    }


def _rules(accesses: Sequence[Access]) -> Iterator[dict[str, Any]]:
    """Combine resources with the same group, verbs and names into one rule."""
    grouped: dict[tuple[str, tuple[str, ...], str], list[str]] = {}
    for access in accesses:
        for verbs, name in _by_nameability(access):
            grouped.setdefault((access.group, verbs, name), []).append(access.resource)
    for (group, verbs, name), resources in grouped.items():
        rule: dict[str, Any] = {
            "apiGroups": [group],
            "resources": sorted(dict.fromkeys(resources)),
            "verbs": list(verbs),
        }
        if name:
            rule["resourceNames"] = [name]
        yield rule


# Requests with these verbs do not contain a name, so a rule with resourceNames refuses them.
_NAMELESS = frozenset({"create", "list", "watch", "deletecollection"})


def _by_nameability(access: Access) -> Iterator[tuple[tuple[str, ...], str]]:
    if not access.name:
        yield access.verbs, ""
        return
    nameless = tuple(verb for verb in access.verbs if verb in _NAMELESS)
    named = tuple(verb for verb in access.verbs if verb not in _NAMELESS)
    if nameless:
        yield nameless, ""
    if named:
        yield named, access.name
