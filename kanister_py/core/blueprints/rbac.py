"""Rights that a Blueprint needs at the least, as roles."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kanister_py.core.blueprints.model import Action, Blueprint
from kanister_py.core.blueprints.reads import engine_of, reads_of_action
from kanister_py.core.kube.access import Access, merged
from kanister_py.core.kube.resources import PODS, GroupVersionResource
from kanister_py.core.templates.engines import is_template
from kanister_py.core.templates.facts import SEEN_AS, needs_of

# What is fetched so that a template can see it, by the name it is seen under.
_SEEN: Final[Mapping[str, tuple[Access, ...]]] = {
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
# How a template says where that object is.
_ITS_NAMESPACE: Final = re.compile(
    r"\{\{-?\s*\.?"
    r"((StatefulSet|Deployment|DeploymentConfig|PVC)\.Namespace"
    r"|Namespace\.Name|Object\.metadata\.namespace)"
    r"\s*-?\}\}"
)
_OBJECT_KINDS: Final = {"secret": "secrets", "configmap": "configmaps"}


class Needs(NamedTuple):
    """Accesses of a Blueprint to a cluster, the functions that do not declare theirs, and
    the actions whose templates read an object of an unknown kind.
    """

    accesses: tuple[Access, ...]
    silent_functions: tuple[str, ...]
    objectless_actions: tuple[str, ...] = ()


class Target(NamedTuple):
    """The object of an ActionSet, as it refers to it, and whether its kind has namespaces."""

    reference: Mapping[str, Any]
    is_namespaced: bool = True

    @property
    def resource(self) -> GroupVersionResource:
        return needs_of(self.reference).object.resource

    @property
    def namespace(self) -> str:
        return str(self.reference.get("namespace") or "") if self.is_namespaced else ""

    @property
    def seen_as(self) -> str:
        """Under which name templates see more of it than of any object; none for most kinds."""
        return SEEN_AS.get(str(self.reference.get("kind") or "").lower(), "")


AccessOf = Callable[[str, str, Mapping[str, Any]], Iterable[Access] | None]
"""Says what a function does, by its name, the version asked for, and its args; None if unknown."""


def needs_of_blueprint(
    blueprint: Blueprint,
    access_of: AccessOf,
    only: Sequence[str] = (),
    target: Target | None = None,
) -> Needs:
    """Gather what the actions of a Blueprint do: all of them, or `only` some.

    With a `target` they act on that very object, which is read whether or not a
    template looks at it.
    """
    found: list[Access] = [] if target is None else list(accesses_to(target))
    silent: dict[str, None] = {}
    objectless: list[str] = []
    engine = engine_of(blueprint).engine
    for name, action in blueprint.actions.items():
        if only and name not in only:
            continue
        roots = _roots_of(action, engine)
        if target is None and "Object" in roots and roots.isdisjoint(SEEN_AS.values()):
            objectless.append(name)
        if target is not None:
            roots.discard(target.seen_as)
        for root in sorted(roots):
            found += _SEEN.get(root, ())
        for _path, phase in action.every_phase():
            for reference in phase.objects.values():
                resource = _OBJECT_KINDS.get(reference.kind.lower())
                if resource:
                    found.append(
                        Access("", resource, ("get",), reference.namespace, reference.name)
                    )
            declared = access_of(phase.func, phase.func_version, phase.args)
            if declared is None:
                silent.setdefault(phase.func)
            else:
                found += declared
    accesses = merged(_known_part(each, target) for each in found)
    return Needs(tuple(accesses), tuple(silent), tuple(objectless))


def accesses_to(target: Target) -> Iterator[Access]:
    """Say what it takes to read the object of an ActionSet, with what templates see of it."""
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
    roots = {SEEN_AS[action.kind.lower()]} if action.kind.lower() in SEEN_AS else set()
    return roots | {read.names[0] for read in reads_of_action(action, engine)}


def _known_part(access: Access, target: Target | None) -> Access:
    """Leave out names that only a run knows: any object of the run's namespace, then.

    Where the object of the ActionSet is, is known with it.
    """
    namespace = access.namespace
    if target is not None and _ITS_NAMESPACE.fullmatch(namespace.strip()):
        namespace = str(target.reference.get("namespace") or "")
    return access._replace(
        namespace="" if is_template(namespace) else namespace,
        name="" if is_template(access.name) else access.name,
    )


def roles_of(needs: Needs, name: str, namespace: str = "") -> list[dict[str, Any]]:
    """Write the smallest roles that allow it: one for each namespace, one for the cluster."""
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
    """Put resources with the same group, verbs and names into one rule."""
    grouped: dict[tuple[str, tuple[str, ...], str], list[str]] = {}
    for each in accesses:
        for verbs, name in _by_nameability(each):
            grouped.setdefault((each.group, verbs, name), []).append(each.resource)
    for (group, verbs, name), resources in grouped.items():
        rule: dict[str, Any] = {
            "apiGroups": [group],
            "resources": sorted(dict.fromkeys(resources)),
            "verbs": list(verbs),
        }
        if name:
            rule["resourceNames"] = [name]
        yield rule


# A rule with names does not allow these: the name is not part of such a request.
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
