"""Confinement of runs: restricted access to the cluster and the object stores for tenants.

A confined run sends all its requests through `ConfinedCluster`, from reading the object of the
action to creating pods. Functions of third parties are therefore confined as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any, Final, cast

from kanister_py.core.errors import Forbidden, NotFound
from kanister_py.core.kube.locations import Credential, Location, StoreKind
from kanister_py.core.kube.parts import name_of, namespace_of, spec_of
from kanister_py.core.kube.reference_grants import (
    REFERENCE_GRANTS,
    ReferenceNotGranted,
    Target,
    is_granted,
)
from kanister_py.core.kube.resources import (
    NAMESPACES,
    PODS,
    VOLUME_SNAPSHOT_CLASSES,
    VOLUME_SNAPSHOT_CONTENTS,
    GroupVersionResource,
)
from kanister_py.executor.phase_context import Surroundings
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import (
    Cluster,
    ExecSession,
    KubeObject,
    LogStream,
    ObjectList,
    Patch,
    Watch,
)
from kanister_py.ports.confinement import Confinement
from kanister_py.ports.object_store import ObjectStore, ObjectStores

_FRESH_SECONDS: Final = 5.0
_STORAGE_CLASSES: Final = GroupVersionResource("storage.k8s.io", "v1", "storageclasses")
# StorageClasses and snapshot classes describe drivers and hold no data. Snapshots need them.
_READABLE: Final = frozenset({VOLUME_SNAPSHOT_CLASSES, _STORAGE_CLASSES})
# A review of the account's own rights changes nothing and reveals nothing else.
_REVIEWS: Final = ("SelfSubjectAccessReview", "SelfSubjectRulesReview")
_OWN_RIGHTS: Final = frozenset(("authorization.k8s.io", kind) for kind in _REVIEWS)
_CONTENT: Final = (VOLUME_SNAPSHOT_CONTENTS.group, "VolumeSnapshotContent")


class ReferenceGrants:
    """ReferenceGrants of a cluster, read when a run names another namespace.

    They are read with the rights of the controller, and cached for a few seconds only, so that
    a withdrawn grant soon affects active runs as well.
    """

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._lock = Lock()
        self._read: dict[str, tuple[float, Sequence[KubeObject]]] = {}

    def allow(self, own: str, target: Target) -> bool:
        """Return True if the owner of the target's namespace granted it to namespace `own`."""
        return is_granted(self._grants_in(target.namespace), own, target)

    def _grants_in(self, namespace: str) -> Sequence[KubeObject]:
        now = self._clock.monotonic()
        with self._lock:
            read_at, grants = self._read.get(namespace, (now - _FRESH_SECONDS, ()))
        if now - read_at < _FRESH_SECONDS:
            return grants
        try:
            grants = self._cluster.list(REFERENCE_GRANTS, namespace=namespace).items
        except (NotFound, Forbidden):
            # The definition is not installed, or the controller may not read it: no grants.
            grants = ()
        with self._lock:
            self._read[namespace] = (now, grants)
        return grants


class ConfinedCluster:
    """Cluster that restricts a run to its own namespace and to granted objects.

    Other requests raise `ReferenceNotGranted` before they are sent. The exceptions are reads of the
    own Namespace and of storage and snapshot classes, and the contents of the namespace's own
    snapshots. An object without a namespace is created in the run's own namespace.
    """

    def __init__(self, cluster: Cluster, namespace: str, grants: ReferenceGrants) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._grants = grants

    def as_cluster(self) -> Cluster:
        """Return this object typed as a cluster; other attributes are forwarded."""
        return cast("Cluster", self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    @property
    def default_namespace(self) -> str:
        return self._namespace

    def acting_as(self, user: str) -> Cluster:
        acting = self._cluster.acting_as(user)
        return ConfinedCluster(acting, self._namespace, self._grants).as_cluster()

    # Single objects

    def get(
        self, resource: GroupVersionResource, name: str, *, namespace: str = "", **options: Any
    ) -> KubeObject:
        if resource in _READABLE or (resource == NAMESPACES and name == self._namespace):
            return self._cluster.get(resource, name, **options)
        if resource == VOLUME_SNAPSHOT_CONTENTS:
            return self._own_content(name)
        namespace = self._checked(resource, namespace, name)
        return self._cluster.get(resource, name, namespace=namespace, **options)

    def patch(
        self,
        resource: GroupVersionResource,
        name: str,
        patch: Patch,
        *,
        namespace: str = "",
        **options: Any,
    ) -> KubeObject:
        namespace = self._checked(resource, namespace, name)
        return self._cluster.patch(resource, name, patch, namespace=namespace, **options)

    def delete(
        self, resource: GroupVersionResource, name: str, *, namespace: str = "", **options: Any
    ) -> KubeObject:
        if resource == VOLUME_SNAPSHOT_CONTENTS:
            self._own_content(name)
            return self._cluster.delete(resource, name, **options)
        namespace = self._checked(resource, namespace, name)
        return self._cluster.delete(resource, name, namespace=namespace, **options)

    def scale(
        self,
        resource: GroupVersionResource,
        name: str,
        replicas: int,
        *,
        namespace: str = "",
    ) -> KubeObject:
        namespace = self._checked(resource, namespace, name)
        return self._cluster.scale(resource, name, replicas, namespace=namespace)

    # Writes of complete objects

    def create(self, obj: Mapping[str, Any], **options: Any) -> KubeObject:
        return self._cluster.create(self._checked_object(obj), **options)

    def replace(self, obj: Mapping[str, Any], **options: Any) -> KubeObject:
        return self._cluster.replace(self._checked_object(obj), **options)

    def replace_status(self, obj: Mapping[str, Any]) -> KubeObject:
        return self._cluster.replace_status(self._checked_object(obj))

    def apply(self, obj: Mapping[str, Any], **options: Any) -> KubeObject:
        return self._cluster.apply(self._checked_object(obj), **options)

    # Lists and watches

    def list(
        self, resource: GroupVersionResource, *, namespace: str = "", **options: Any
    ) -> ObjectList:
        namespace = self._checked(resource, namespace)
        return self._cluster.list(resource, namespace=namespace, **options)

    def watch(
        self, resource: GroupVersionResource, *, namespace: str = "", **options: Any
    ) -> Watch:
        namespace = self._checked(resource, namespace)
        return self._cluster.watch(resource, namespace=namespace, **options)

    # Pods

    def read_log(self, name: str, *, namespace: str, **options: Any) -> LogStream:
        namespace = self._checked(PODS, namespace, name)
        return self._cluster.read_log(name, namespace=namespace, **options)

    def exec(
        self, name: str, command: Sequence[str], *, namespace: str, **options: Any
    ) -> ExecSession:
        namespace = self._checked(PODS, namespace, name)
        return self._cluster.exec(name, command, namespace=namespace, **options)

    # Checks

    def _checked(self, resource: GroupVersionResource, namespace: str, name: str = "") -> str:
        """Return the namespace to use in a request, or raise if the run may not name it."""
        kind = self._cluster.describe(resource)
        if not kind.is_namespaced:
            raise ReferenceNotGranted(Target(resource.group, kind.kind, "", name), self._namespace)
        namespace = namespace or self._namespace
        self._check(Target(resource.group, kind.kind, namespace, name))
        return namespace

    def _checked_object(self, obj: Mapping[str, Any]) -> Mapping[str, Any]:
        api_version, kind = str(obj.get("apiVersion") or ""), str(obj.get("kind") or "")
        group = api_version.rpartition("/")[0]
        if (group, kind) in _OWN_RIGHTS:
            return obj
        if (group, kind) == _CONTENT:
            self._check_content(obj)
            return obj
        namespace = namespace_of(obj) or self._namespace
        if not self._cluster.resource_for(api_version, kind).is_namespaced:
            raise ReferenceNotGranted(Target(group, kind, "", name_of(obj)), self._namespace)
        self._check(Target(group, kind, namespace, name_of(obj)))
        return {**obj, "metadata": {**(obj.get("metadata") or {}), "namespace": namespace}}

    def _check(self, target: Target) -> None:
        if target.namespace == self._namespace:
            return
        if not self._grants.allow(self._namespace, target):
            raise ReferenceNotGranted(target, self._namespace)

    def _own_content(self, name: str) -> KubeObject:
        """Read a VolumeSnapshotContent, which must belong to a snapshot of the run's namespace."""
        content = self._cluster.get(VOLUME_SNAPSHOT_CONTENTS, name)
        self._check_content(content)
        return content

    def _check_content(self, content: Mapping[str, Any]) -> None:
        bound_to = spec_of(content).get("volumeSnapshotRef") or {}
        if bound_to.get("namespace") != self._namespace:
            target = Target(*_CONTENT, "", name_of(content))
            raise ReferenceNotGranted(target, self._namespace)


def confined(
    surroundings: Surroundings, confinement: Confinement, grants: ReferenceGrants
) -> Surroundings:
    """Return the surroundings of a run that is restricted to its own namespace and to grants."""

    def confine(cluster: Cluster) -> Cluster:
        return ConfinedCluster(cluster, confinement.namespace, grants).as_cluster()

    stores, facts = surroundings.stores, surroundings.facts
    return surroundings._replace(
        cluster=confine(surroundings.cluster),
        facts=None if facts is None else confine(facts),
        stores=None if stores is None else ConfinedStores(stores, confinement),
        confinement=confinement,
    )


class ConfinedStores:
    """Object stores without the controller's folders, cloud credentials and local servers."""

    def __init__(self, stores: ObjectStores, confinement: Confinement) -> None:
        self._stores = stores
        self._confinement = confinement

    def open(self, location: Location) -> ObjectStore:
        self._check(location)
        return self._stores.open(location)

    def place_of(self, location: Location) -> Location:
        return self._stores.place_of(location)

    def with_keys(self, location: Location) -> Location:
        self._check(location)
        return self._stores.with_keys(location)

    def addresses_of(self, location: Location) -> frozenset[str]:
        return self._stores.addresses_of(location)

    def _check(self, location: Location) -> None:
        # Only a Profile of type `file` is restricted. If a folder replaces a bucket, it was chosen
        # by the operator.
        if location.kind is StoreKind.FILE:
            self._confinement.check_file_location()
        elif location.credential == Credential(role=location.credential.role):
            self._confinement.check_ambient_credentials(f"The {location}, without a credential,")
        for address in self._stores.addresses_of(location):
            self._confinement.check_address(address)
