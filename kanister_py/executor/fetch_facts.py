"""Facts for templates, fetched from the cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

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
from kanister_py.core.kube.parts import spec_of
from kanister_py.core.kube.resources import (
    CONFIG_MAPS,
    PODS,
    PROFILES,
    SECRETS,
    GroupVersionResource,
)
from kanister_py.core.kube.selectors import label_selector_of
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
    look = _Look(cluster)
    reference = reference_as_dict(spec.object)
    roots = [(root,) for root in (*WORKLOADS, "Object", "PVC", "Namespace")]
    seen = look.attempt(lambda: look.target(reference, workload, found), *roots)
    facts = ActionFacts(
        time=text_of_moment(time),
        artifacts=artifacts_as_dict(spec.artifacts),
        config_maps=look.each(CONFIG_MAPS, "configMaps", spec.config_maps),
        secrets=look.each(SECRETS, "secrets", spec.secrets),
        profile=look.attempt(lambda: fetch_profile(cluster, spec), ("Profile",)),
        options=spec.options,
        pod_override=spec.pod_override,
        pod_labels=spec.pod_labels,
        pod_annotations=spec.pod_annotations,
        **(seen or {}),
    )
    return Fetched(facts, tuple(look.missing))


OF_PODS: Final = ("Pods", "Containers", "PersistentVolumeClaims")
WORKLOADS: Final = ("StatefulSet", "Deployment", "DeploymentConfig")
_OF_TARGET: Final = (("Object",), *((root, field) for root in WORKLOADS for field in OF_PODS))
"""The names of the facts about an action's object, but for its name and namespace."""


class _Look:
    """One look at a cluster, which goes on without what is not there, and notes it."""

    def __init__(self, cluster: Cluster) -> None:
        self.missing: list[Missing] = []
        self._cluster = cluster

    def attempt(self, read: Callable[[], T], *names: tuple[str, ...]) -> T | None:
        """Read something that is seen under some names. What may pass by itself is raised."""
        try:
            return read()
        except TransientError:
            raise
        except KanisterError as error:
            self.missing.append(Missing(error, names))
            return None

    def each(
        self, resource: GroupVersionResource, field: str, references: Mapping[str, ObjectReference]
    ) -> dict[str, KubeObject]:
        found = {}
        root = f"{field[0].upper()}{field[1:]}"
        for name, each in references.items():
            need = ObjectNeed(resource, each.name, each.namespace)
            read = partial(fetch_named, self._cluster, need, f"{field}.{name} of the action")
            there = self.attempt(read, (root, name))
            if there is not None:
                found[name] = there
        return found

    def target(
        self, reference: Mapping[str, Any], workload: Workload | None, known: KubeObject | None
    ) -> dict[str, Any]:
        """Read what an action is about; what is `known` of it already is not read again."""
        needs = needs_of(reference)
        name, namespace = needs.object.name, needs.object.namespace
        read = partial(_fetch_object, self._cluster, needs.object)
        found = known or self.attempt(read, *_OF_TARGET)
        seen = workload
        if needs.workload is not None and workload is None:
            if found is not None:
                read_pods = partial(_fetch_workload, self._cluster, needs, found)
                seen = self.attempt(read_pods, *_OF_TARGET)
            seen = seen or Workload(name, namespace)
        stand_in = {"metadata": {"name": name, "namespace": namespace}}
        return facts_of_object(needs, reference, found or stand_in, seen)


def fetch_named(cluster: Cluster, need: ObjectNeed, role: str = "") -> KubeObject:
    """Read one object, and say in full which one it is that is not there."""
    try:
        return cluster.get(need.resource, need.name, namespace=need.namespace)
    except TransientError:
        raise
    except ApiError as error:
        kind, place = _kind_and_place(need)
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


def _kind_and_place(need: ObjectNeed) -> tuple[str, str]:
    place = f"{need.namespace}/{need.name}" if need.namespace else need.name
    return _KINDS.get(need.resource.resource, need.resource.resource), place


def _fetch_object(cluster: Cluster, need: ObjectNeed) -> KubeObject:
    try:
        return cluster.get(need.resource, need.name, namespace=need.namespace)
    except TransientError:
        raise
    except ApiError as error:
        resource = need.resource
        kind, place = _kind_and_place(need)
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
        is_set = needs.owners.resource == "replicasets"
        owners_kind = "ReplicaSet" if is_set else "ReplicationController"
        kind = found.get("kind", needs.workload)
        raise OwnerMissing(f"Could not find a {owners_kind} for {kind}: not found")
    selector = spec_of(found).get("selector") or {}
    if selector and "matchLabels" not in selector and "matchExpressions" not in selector:
        # DeploymentConfigs know only pairs of keys and values.
        selector = {"matchLabels": selector}
    labels = str(label_selector_of(selector))
    return workload_of(found, owner, cluster.list(PODS, namespace=namespace, label_selector=labels))


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
