"""Facts for templates, fetched from the cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeVar

from kanister_py.core.actionsets.model import ActionSpec, artifacts_as_dict, reference_as_dict
from kanister_py.core.actionsets.status import text_of_moment
from kanister_py.core.blueprints.model import ObjectReference
from kanister_py.core.errors import (
    ApiError,
    KanisterError,
    NotFound,
    ObjectNotFetched,
    TransientError,
    UsageError,
)
from kanister_py.core.objects.parts import spec_of
from kanister_py.core.objects.resources import (
    CONFIG_MAPS,
    PODS,
    PROFILES,
    SECRETS,
    GroupVersionResource,
)
from kanister_py.core.objects.selectors import label_selector_of
from kanister_py.core.templates.facts import (
    ActionFacts,
    ActionNeeds,
    ObjectNeed,
    ResolvedProfile,
    Workload,
    facts_of_object,
    needs_of,
    needs_of_profile,
    owner_of_pods,
    resolve_profile,
    workload_of,
)
from kanister_py.core.templates.render import ORIGINAL
from kanister_py.ports.cluster import Cluster, KubeObject
from kanister_py.values import NamedTuple

T = TypeVar("T")


class OwnerMissing(NotFound):
    """The owner of a workload's pods is not there."""


class Missing(NamedTuple):
    """Something that is not there, and under which names templates would see it."""

    error: KanisterError
    names: tuple[tuple[str, ...], ...]


class Fetched(NamedTuple):
    """Facts for templates, and why any are missing.

    What is missing is left out, and of the object that an action is about nothing is
    known then but where it should be.
    """

    facts: ActionFacts
    missing: tuple[Missing, ...] = ()

    @property
    def open(self) -> dict[tuple[str, ...], str]:
        """Say of the names under which something is missing why nothing is known of them."""
        return {names: "it is not there" for each in self.missing for names in each.names}


def fetch_facts(
    cluster: Cluster,
    spec: ActionSpec,
    time: datetime,
    workload: Workload | None = None,
    found: KubeObject | None = None,
) -> Fetched:
    """Read everything the templates of an action see before its first phase.

    A `workload` and an object that were `found` when the action was launched are
    taken as they are: a later phase must see the pods that were there before the
    first one scaled them away.
    """
    missing: list[Missing] = []
    reference = reference_as_dict(spec.object)
    roots = [(root,) for root in (*WORKLOADS, "Object", "PVC", "Namespace")]
    read_target = partial(_facts_of_target, cluster, reference, workload, found, missing)
    seen = _attempt(read_target, missing, *roots)
    facts = ActionFacts(
        time=text_of_moment(time),
        artifacts=artifacts_as_dict(spec.artifacts),
        config_maps=_fetch_each(cluster, CONFIG_MAPS, "configMaps", spec.config_maps, missing),
        secrets=_fetch_each(cluster, SECRETS, "secrets", spec.secrets, missing),
        profile=_attempt(partial(fetch_profile, cluster, spec), missing, ("Profile",))
        if spec.profile
        else None,
        options=spec.options,
        pod_override=spec.pod_override,
        pod_labels=spec.pod_labels,
        pod_annotations=spec.pod_annotations,
        **(seen or {}),
    )
    return Fetched(facts, tuple(missing))


OF_PODS: Final = ("Pods", "Containers", "PersistentVolumeClaims")
WORKLOADS: Final = ("StatefulSet", "Deployment", "DeploymentConfig")
_OF_TARGET: Final = (("Object",), *((root, field) for root in WORKLOADS for field in OF_PODS))
"""The names of the facts about an action's object, but for its name and namespace."""


def _attempt(read: Callable[[], T], missing: list[Missing], *names: tuple[str, ...]) -> T | None:
    """Go on without what is not there. What may pass by itself is raised."""
    try:
        return read()
    except TransientError:
        raise
    except KanisterError as error:
        missing.append(Missing(error, names))
        return None


def _fetch_each(
    cluster: Cluster,
    resource: GroupVersionResource,
    field: str,
    references: Mapping[str, ObjectReference],
    missing: list[Missing],
) -> dict[str, KubeObject]:
    found = {}
    root = f"{field[0].upper()}{field[1:]}"
    for name, each in references.items():
        need = ObjectNeed(resource, each.name, each.namespace)
        role = f"{field}.{name} of the action"
        there = _attempt(partial(fetch_named, cluster, need, role), missing, (root, name))
        if there is not None:
            found[name] = there
    return found


def _facts_of_target(
    cluster: Cluster,
    reference: Mapping[str, Any],
    workload: Workload | None,
    known: KubeObject | None,
    missing: list[Missing],
) -> dict[str, Any]:
    needs = needs_of(reference)
    name, namespace = needs.object.name, needs.object.namespace
    read = partial(_fetch_object, cluster, needs.object)
    found = known or _attempt(read, missing, *_OF_TARGET)
    if needs.workload is None:
        seen = workload
    elif workload is not None or found is None:
        seen = workload or Workload(name, namespace)
    else:
        there = found
        seen = _attempt(lambda: _fetch_workload(cluster, needs, there), missing, *_OF_TARGET)
        seen = seen or Workload(name, namespace)
    stand_in = {"metadata": {"name": name, "namespace": namespace}}
    return facts_of_object(needs, reference, found or stand_in, seen)


def fetch(cluster: Cluster, need: ObjectNeed) -> KubeObject:
    """Read one object that a template wants to see."""
    return cluster.get(need.resource, need.name, namespace=need.namespace)


def fetch_named(cluster: Cluster, need: ObjectNeed, role: str = "") -> KubeObject:
    """Read one object, and say in full which one it is that is not there."""
    try:
        return fetch(cluster, need)
    except TransientError:
        raise
    except ApiError as error:
        place = f"{need.namespace}/{need.name}" if need.namespace else need.name
        kind = _KINDS.get(need.resource.resource, need.resource.resource)
        what = f"{kind} {place}, {role}," if role else f"{kind} {place}"
        if isinstance(error, NotFound):
            raise NotFound(f"{what} is not there: {error.message}") from error
        raise UsageError(f"{what} cannot be read: {error.message}", reason=error.reason) from error


_NAMESPACED: Final = frozenset({*WORKLOADS, "PersistentVolumeClaim"})
_KINDS: Final[Mapping[str, str]] = {
    "secrets": "Secret",
    "configmaps": "ConfigMap",
    "profiles": "Profile",
    "namespaces": "Namespace",
    "deployments": "Deployment",
    "statefulsets": "StatefulSet",
    "deploymentconfigs": "DeploymentConfig",
    "persistentvolumeclaims": "PersistentVolumeClaim",
}


def _fetch_object(cluster: Cluster, need: ObjectNeed) -> KubeObject:
    try:
        return fetch(cluster, need)
    except TransientError:
        raise
    except ApiError as error:
        resource = need.resource
        kind = _KINDS.get(resource.resource, resource.resource)
        place = f"{need.namespace}/{need.name}" if need.namespace else need.name
        if not need.namespace and kind in _NAMESPACED:
            place += " (its reference names no namespace)"
        what = "is not there" if isinstance(error, NotFound) else "cannot be read"
        raise ObjectNotFetched(
            f"{kind} {place}, the object of the action, {what}{ORIGINAL}"
            f"Could not fetch object name: {need.name}, namespace: {need.namespace}, "
            f"group: {resource.group}, version: {resource.version}, "
            f"resource: {resource.resource}: {error.message}"
        ) from error


def _fetch_workload(cluster: Cluster, needs: ActionNeeds, found: KubeObject) -> Workload:
    assert needs.workload is not None
    namespace = needs.object.namespace
    owners = (
        cluster.list(needs.owners, namespace=namespace).items if needs.owners is not None else []
    )
    owner = owner_of_pods(needs.workload, found, owners)
    if owner is None:
        assert needs.owners is not None
        kind = found.get("kind", needs.workload)
        raise OwnerMissing(f"Could not find a {_owner_kind(needs)} for {kind}: not found")
    selector = spec_of(found).get("selector")
    pods = cluster.list(
        PODS, namespace=namespace, label_selector=str(label_selector_of(_full_selector(selector)))
    )
    return workload_of(found, owner, pods)


def _owner_kind(needs: ActionNeeds) -> str:
    resource = needs.owners.resource if needs.owners is not None else ""
    return "ReplicaSet" if resource == "replicasets" else "ReplicationController"


def _full_selector(selector: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Give a selector its full form: DeploymentConfigs know only pairs of keys and values."""
    if not selector:
        return {}
    if "matchLabels" in selector or "matchExpressions" in selector:
        return selector
    return {"matchLabels": selector}


def fetch_profile(cluster: Cluster, spec: ActionSpec) -> ResolvedProfile | None:
    """Read the Profile of an action with the Secrets it refers to; None if it names none."""
    reference = spec.profile
    if reference is None or not reference.name:
        return None
    need = ObjectNeed(PROFILES, reference.name, reference.namespace)
    profile = fetch_named(cluster, need, "profile of the action")
    secrets = {
        each: fetch_named(cluster, each, f"credential of the Profile {reference.name}")
        for each in needs_of_profile(profile)
    }
    return resolve_profile(profile, secrets)


# What must outlive a restart


def workload_as_dict(workload: Workload | None) -> dict[str, Any]:
    """Write what was seen of a workload at launch, to be remembered in a status."""
    if workload is None:
        return {}
    return {
        "workload": {
            "name": workload.name,
            "namespace": workload.namespace,
            "pods": list(workload.pods),
            "containers": [list(each) for each in workload.containers],
            "persistentVolumeClaims": {
                pod: dict(claims) for pod, claims in workload.persistent_volume_claims.items()
            },
        }
    }


def parse_workload(facts: Mapping[str, Any]) -> Workload | None:
    """Read what `workload_as_dict` wrote."""
    data = facts.get("workload")
    if not data:
        return None
    return Workload(
        name=data["name"],
        namespace=data["namespace"],
        pods=tuple(data["pods"]),
        containers=tuple(tuple(each) for each in data["containers"]),
        persistent_volume_claims=data["persistentVolumeClaims"],
    )
