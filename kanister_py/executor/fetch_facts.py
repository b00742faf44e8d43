"""Facts for templates: the objects of an action, fetched from the cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from kanister_py.core.actionsets.model import ActionSpec, artifacts_as_dict, reference_as_dict
from kanister_py.core.actionsets.status import text_of_moment
from kanister_py.core.blueprints.model import ObjectReference
from kanister_py.core.blueprints.options import HasOptions, options_with_defaults
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
    """The owner of a workload's pods does not exist."""


class Missing(NamedTuple):
    """A missing object, and the names under which templates would read it."""

    error: KanisterError
    names: tuple[tuple[str, ...], ...]


class Fetched(NamedTuple):
    """Facts for templates, and the errors for missing objects.

    Missing facts are omitted. If the object of the action is missing, the facts contain only
    its namespace and name.
    """

    facts: ActionFacts
    missing: tuple[Missing, ...] = ()

    @property
    def open(self) -> dict[tuple[str, ...], str]:
        """Map the names of missing facts to the reason why their values are unknown."""
        return {names: "it does not exist" for fact in self.missing for names in fact.names}


def fetch_facts(
    cluster: Cluster,
    spec: ActionSpec,
    time: datetime,
    workload: Workload | None = None,
    target: KubeObject | None = None,
    *,
    action: HasOptions | None = None,
) -> Fetched:
    """Read all facts that the templates of an action can use before its first phase.

    Raises only transient errors. Other errors are returned as missing facts.

    A `workload` and a `target` that were recorded when the action was launched are used
    unchanged: later phases must see the pods that existed before the first phase scaled
    the workload down. The declared options of `action` supply defaults.
    """
    reader = _FactReader(cluster)
    reference = reference_as_dict(spec.object)
    roots = [(root,) for root in (*WORKLOADS, "Object", "PVC", "Namespace")]
    seen = reader.attempt(lambda: reader.target(reference, workload, target), *roots)
    facts = ActionFacts(
        time=text_of_moment(time),
        artifacts=artifacts_as_dict(spec.artifacts),
        config_maps=reader.objects(CONFIG_MAPS, "configMaps", spec.config_maps),
        secrets=reader.objects(SECRETS, "secrets", spec.secrets),
        profile=reader.attempt(lambda: fetch_profile(cluster, spec), ("Profile",)),
        options=spec.options if action is None else options_with_defaults(action, spec.options),
        pod_override=spec.pod_override,
        pod_labels=spec.pod_labels,
        pod_annotations=spec.pod_annotations,
        **(seen or {}),
    )
    return Fetched(facts, tuple(reader.missing))


OF_PODS: Final = ("Pods", "Containers", "PersistentVolumeClaims")
WORKLOADS: Final = ("StatefulSet", "Deployment", "DeploymentConfig")
_OF_TARGET: Final = (("Object",), *((root, field) for root in WORKLOADS for field in OF_PODS))
"""Names of the facts about an action's object, except its name and namespace."""


class _FactReader:
    """Reader of facts that continues after missing objects and records them."""

    def __init__(self, cluster: Cluster) -> None:
        self.missing: list[Missing] = []
        self._cluster = cluster

    def attempt(self, read: Callable[[], T], *names: tuple[str, ...]) -> T | None:
        """Read a fact with these names. Errors are recorded, except transient ones."""
        try:
            return read()
        except TransientError:
            raise
        except KanisterError as error:
            self.missing.append(Missing(error, names))
            return None

    def objects(
        self, resource: GroupVersionResource, field: str, references: Mapping[str, ObjectReference]
    ) -> dict[str, KubeObject]:
        objects = {}
        root = f"{field[0].upper()}{field[1:]}"
        for name, reference in references.items():
            need = ObjectNeed(resource, reference.name, reference.namespace)
            read = partial(fetch_named, self._cluster, need, f"{field}.{name} of the action")
            obj = self.attempt(read, (root, name))
            if obj is not None:
                objects[name] = obj
        return objects

    def target(
        self, reference: Mapping[str, Any], workload: Workload | None, target: KubeObject | None
    ) -> dict[str, Any]:
        """Read the object of an action and its workload, unless they are passed."""
        needs = needs_of(reference)
        name, namespace = needs.object.name, needs.object.namespace
        read = partial(_fetch_object, self._cluster, needs.object)
        obj = target or self.attempt(read, *_OF_TARGET)
        seen = workload
        if needs.workload is not None and workload is None:
            if obj is not None:
                read_pods = partial(_fetch_workload, self._cluster, needs, obj)
                seen = self.attempt(read_pods, *_OF_TARGET)
            seen = seen or Workload(name, namespace)
        stand_in = {"metadata": {"name": name, "namespace": namespace}}
        return facts_of_object(needs, reference, obj or stand_in, seen)


def fetch_named(cluster: Cluster, need: ObjectNeed, role: str = "") -> KubeObject:
    """Read one object; errors name the object and its role."""
    try:
        return cluster.get(need.resource, need.name, namespace=need.namespace)
    except TransientError:
        raise
    except ApiError as error:
        kind, place = _kind_and_place(need)
        what = f"{kind} {place}, {role}," if role else f"{kind} {place}"
        if isinstance(error, NotFound):
            raise NotFound(f"{what} does not exist: {error.message}") from error
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
        what = "does not exist" if isinstance(error, NotFound) else "cannot be read"
        raise ObjectNotFetched(
            f"{kind} {place}, the object of the action, {what}{ORIGINAL}"
            f"Could not fetch object name: {need.name}, namespace: {need.namespace}, "
            f"group: {resource.group}, version: {resource.version}, "
            f"resource: {resource.resource}: {error.message}"
        ) from error


def _fetch_workload(cluster: Cluster, needs: ActionNeeds, obj: KubeObject) -> Workload:
    assert needs.workload is not None
    namespace = needs.object.namespace
    owners = (
        cluster.list(needs.owners, namespace=namespace).items if needs.owners is not None else []
    )
    owner = owner_of_pods(needs.workload, obj, owners)
    if owner is None:
        assert needs.owners is not None
        is_set = needs.owners.resource == "replicasets"
        owners_kind = "ReplicaSet" if is_set else "ReplicationController"
        kind = obj.get("kind", needs.workload)
        raise OwnerMissing(f"Could not find a {owners_kind} for {kind}: not obj")
    selector = spec_of(obj).get("selector") or {}
    if selector and "matchLabels" not in selector and "matchExpressions" not in selector:
        # DeploymentConfigs only support pairs of keys and values.
        selector = {"matchLabels": selector}
    labels = str(label_selector_of(selector))
    return workload_of(obj, owner, cluster.list(PODS, namespace=namespace, label_selector=labels))


def fetch_profile(cluster: Cluster, spec: ActionSpec) -> ResolvedProfile | None:
    """Read the Profile of an action and the Secrets that it references; None without a Profile."""
    reference = spec.profile
    if reference is None or not reference.name:
        return None
    need = ObjectNeed(PROFILES, reference.name, reference.namespace)
    profile = fetch_named(cluster, need, "profile of the action")
    secrets = {
        need: fetch_named(cluster, need, f"credential of the Profile {reference.name}")
        for need in needs_of_profile(profile)
    }
    return resolve_profile(profile, secrets)


# Facts that are recorded because they must survive a restart


def workload_as_dict(workload: Workload | None) -> dict[str, Any]:
    """Serialise the facts about a workload at launch, to be recorded in a status."""
    if workload is None:
        return {}
    return {
        "workload": {
            "name": workload.name,
            "namespace": workload.namespace,
            "pods": list(workload.pods),
            "containers": [list(names) for names in workload.containers],
            "persistentVolumeClaims": {
                pod: dict(claims) for pod, claims in workload.persistent_volume_claims.items()
            },
        }
    }


def parse_workload(facts: Mapping[str, Any]) -> Workload | None:
    """Parse the result of `workload_as_dict`."""
    data = facts.get("workload")
    if not data:
        return None
    return Workload(
        name=data["name"],
        namespace=data["namespace"],
        pods=tuple(data["pods"]),
        containers=tuple(tuple(names) for names in data["containers"]),
        persistent_volume_claims=data["persistentVolumeClaims"],
    )
