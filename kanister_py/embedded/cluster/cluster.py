"""Cluster in memory: an API server for objects in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from threading import RLock
from typing import Any, Final, Self

from kanister_py.core.errors import (
    ApiError,
    BadRequest,
    Cause,
    Forbidden,
    Invalid,
    NoMatch,
    NotFound,
)
from kanister_py.core.kube import admission
from kanister_py.core.kube.managed_fields import Manager
from kanister_py.core.kube.parts import metadata_of
from kanister_py.core.kube.resources import (
    NAMESPACES,
    PODS,
    GroupVersionResource,
    ResourceKind,
)
from kanister_py.core.kube.selectors import matcher_of, parse_label_selector
from kanister_py.embedded.cluster import saved_state
from kanister_py.embedded.cluster.lists import (
    Pages,
    copy_as_served,
    field_selector_of,
    select,
    version_of,
)
from kanister_py.embedded.cluster.objects import DEFAULT_MANAGER, Objects
from kanister_py.embedded.cluster.patching import (
    check_delete_preconditions,
    check_preconditions,
    patched,
    patched_replicas,
    scale_of,
    scaled,
)
from kanister_py.embedded.cluster.store import MemoryWatch
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import (
    ExecSession,
    KubeObject,
    LogOptions,
    LogStream,
    ObjectList,
    Patch,
    PatchType,
    PodAccess,
    Propagation,
)
from kanister_py.ports.pods import pods_not_run

_FIRST_NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
_KEPT_NAMESPACES: Final = frozenset({"default", "kube-system", "kube-public"})


class MemoryCluster:
    """Cluster in memory with the behaviour of an API server.

    Resource versions, watches, patches, server-side apply, finalizers and garbage collection
    work as in Kubernetes. No controllers run: workloads are only data, and pods run only if a
    pod runner is attached.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        default_namespace: str = "default",
        history_limit: int = 10_000,
        new_uid: Callable[[], str] | None = None,
        seed: int | None = None,
    ) -> None:
        self._clock = clock
        self._new_objects = partial(
            Objects,
            clock,
            default_namespace=default_namespace,
            history_limit=history_limit,
            new_uid=new_uid,
            seed=seed,
        )
        self._lock = RLock()
        self._objects = self._new_objects()
        self._pages = Pages()
        self._pods: PodAccess | None = None
        for name in (*_FIRST_NAMESPACES, default_namespace):
            self._objects.ensure_namespace(name)

    # Properties

    @property
    def runs_pods(self) -> bool:
        return self._objects.runs_pods

    @property
    def default_namespace(self) -> str:
        return self._objects.default_namespace

    def attach_pods(self, pods: PodAccess | None) -> None:
        """Set the runner of this cluster's pods, which provides their logs and commands."""
        self._pods = pods
        self._objects.runs_pods = pods is not None

    def acting_as(self, user: str) -> Self:  # noqa: ARG002 # it knows no users
        return self

    def resource_for(self, api_version: str, kind: str) -> ResourceKind:
        return self._objects.catalogue.of(api_version, kind).kind

    def describe(self, resource: GroupVersionResource) -> ResourceKind:
        return self._objects.catalogue.at(resource).kind

    def schema_of(self, api_version: str, kind: str) -> Mapping[str, Any] | None:
        """Return the schema of a custom kind. Built-in kinds have none."""
        try:
            return self._objects.catalogue.of(api_version, kind).schema
        except NoMatch:
            return None

    # Reading

    def get(
        self,
        resource: GroupVersionResource,
        name: str,
        *,
        namespace: str = "",
        subresource: str = "",
    ) -> KubeObject:
        entry = self._objects.catalogue.at(resource)
        with self._lock:
            obj = self._objects.find(entry, namespace, name)
        if subresource == "scale":
            return scale_of(entry, obj)
        if subresource not in {"", "status"}:
            raise NotFound("the server could not find the requested resource")
        return copy_as_served(entry, obj)

    def list(
        self,
        resource: GroupVersionResource,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
        continue_token: str = "",
    ) -> ObjectList:
        entry = self._objects.catalogue.at(resource)
        if continue_token:
            return self._pages.next(entry, continue_token, limit)
        with self._lock:
            store = self._objects.store
            version = str(store.version)
            selected = select(store, entry, namespace, label_selector, field_selector)
        return self._pages.first(entry, version, selected, limit)

    def watch(
        self,
        resource: GroupVersionResource,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str = "",
        timeout_seconds: float | None = None,
        bookmarks: bool = False,
    ) -> MemoryWatch:
        entry = self._objects.catalogue.at(resource)
        fields = field_selector_of(entry, field_selector)
        watch = MemoryWatch(
            self._clock,
            namespace=namespace,
            name=fields.name,
            passes=matcher_of(parse_label_selector(label_selector), fields),
            api_version=resource.api_version,
            kind=entry.kind.kind,
            timeout_seconds=timeout_seconds,
            bookmarks=bookmarks,
        )
        since = version_of(resource_version)
        with self._lock:
            store = self._objects.store
            table = store.table(entry.key)
            if since:
                changes = store.changes_since(table, since)
                watch.begin(since, ())
                for change in changes:
                    watch.offer(change)
            else:
                existing = select(store, entry, namespace, label_selector, field_selector)
                watch.begin(store.version, existing)
            store.add_watch(table, watch)

        def leave() -> None:
            with self._lock:
                store.remove_watch(table, watch)

        watch.when_closed(leave)
        return watch

    # Writing

    def create(self, obj: Mapping[str, Any], *, field_manager: str = "") -> KubeObject:
        entry, new = self._objects.parse_object(obj)
        if new["metadata"].get("resourceVersion"):
            raise BadRequest("resourceVersion should not be set on objects to be created")
        manager = Manager(field_manager or DEFAULT_MANAGER, "Update", "")
        with self._lock:
            created = self._objects.create(entry, new, manager)
        return copy_as_served(entry, created)

    def replace(
        self,
        obj: Mapping[str, Any],
        *,
        subresource: str = "",
        field_manager: str = "",
        dry_run: bool = False,
    ) -> KubeObject:
        entry, new = self._objects.parse_object(obj)
        metadata = new["metadata"]
        with self._lock:
            before = self._objects.find(
                entry, metadata.get("namespace", ""), metadata.get("name", "")
            )
            version = metadata.get("resourceVersion", "")
            if not version and not entry.kind.is_builtin:
                why = "Invalid value: 0x0: must be specified for an update"
                admission.refuse(new, entry.kind, [Cause("metadata.resourceVersion", why)])
            check_preconditions(entry, before, metadata.get("uid", ""), version)
            written = self._objects.write(
                entry, before, new, subresource, field_manager, dry_run=dry_run
            )
        return copy_as_served(entry, written)

    def replace_status(self, obj: Mapping[str, Any]) -> KubeObject:
        return self.replace(obj, subresource="status")

    def patch(
        self,
        resource: GroupVersionResource,
        name: str,
        patch: Patch,
        *,
        namespace: str = "",
        patch_type: PatchType = PatchType.MERGE,
        subresource: str = "",
        field_manager: str = "",
    ) -> KubeObject:
        entry = self._objects.catalogue.at(resource)
        with self._lock:
            before = self._objects.find(entry, namespace, name)
            if subresource == "scale":
                replicas = patched_replicas(entry, before, patch, patch_type)
                return self.scale(resource, name, replicas, namespace=namespace)
            new = patched(entry, copy_as_served(entry, before), patch, patch_type)
            metadata = new.get("metadata")
            if not isinstance(metadata, dict) or metadata.get("name") != name:
                raise BadRequest(
                    f"the name of the object ({metadata_of(new).get('name', '')}) does not match "
                    f"the name on the URL ({name})"
                )
            check_preconditions(
                entry, before, metadata.get("uid", ""), metadata.get("resourceVersion", "")
            )
            admission.check_shape(new, entry.kind)
            written = self._objects.write(entry, before, new, subresource, field_manager)
        return copy_as_served(entry, written)

    def apply(
        self,
        obj: Mapping[str, Any],
        *,
        field_manager: str,
        force: bool = False,
        subresource: str = "",
    ) -> KubeObject:
        entry, desired = self._objects.parse_object(obj)
        metadata = desired["metadata"]
        if not field_manager:
            why = "Required value: is required for apply patch"
            raise Invalid(
                f'PatchOptions.meta.k8s.io "" is invalid: fieldManager: {why}',
                causes=[Cause("fieldManager", why)],
            )
        if metadata.get("managedFields"):
            raise BadRequest("metadata.managedFields must be nil")
        if not metadata.get("name"):
            raise Invalid("name is required", causes=[Cause("metadata.name", "Required value")])
        manager = Manager(field_manager, "Apply", desired["apiVersion"], subresource)
        with self._lock:
            written = self._objects.apply(entry, desired, manager, force=force)
        return copy_as_served(entry, written)

    def scale(
        self,
        resource: GroupVersionResource,
        name: str,
        replicas: int,
        *,
        namespace: str = "",
    ) -> KubeObject:
        entry = self._objects.catalogue.at(resource)
        with self._lock:
            before = self._objects.find(entry, namespace, name)
            written = self._objects.write(entry, before, scaled(entry, before, replicas))
        return scale_of(entry, written)

    def delete(
        self,
        resource: GroupVersionResource,
        name: str,
        *,
        namespace: str = "",
        grace_period_seconds: int | None = None,
        propagation: Propagation | None = None,
        uid: str = "",
        resource_version: str = "",
    ) -> KubeObject:
        entry = self._objects.catalogue.at(resource)
        with self._lock:
            before = self._objects.find(entry, namespace, name)
            check_delete_preconditions(entry, before, uid, resource_version)
            if entry.kind.gvr == NAMESPACES and name in _KEPT_NAMESPACES:
                raise Forbidden(
                    f'namespaces "{name}" is forbidden: this namespace may not be deleted',
                    resource="namespaces",
                    name=name,
                )
            gone = self._objects.deletions.delete(entry, before, grace_period_seconds, propagation)
            return copy_as_served(entry, gone)

    # Pods

    def read_log(
        self, name: str, *, namespace: str, options: LogOptions | None = None
    ) -> LogStream:
        self.get(PODS, name, namespace=namespace)
        pods = _attached(self._pods, name, namespace)
        return pods.read_log(name, namespace=namespace, options=options or LogOptions())

    def exec(
        self,
        name: str,
        command: Sequence[str],
        *,
        namespace: str,
        container: str = "",
        has_stdin: bool = False,
    ) -> ExecSession:
        self.get(PODS, name, namespace=namespace)
        return _attached(self._pods, name, namespace).exec(
            name,
            command,
            namespace=namespace,
            container=container,
            has_stdin=has_stdin,
        )

    # Operations that the Cluster port does not have

    def load(self, objects: Iterable[Mapping[str, Any]]) -> Sequence[KubeObject]:
        """Load manifests with their status over existing objects.

        Creates missing namespaces, and loads CustomResourceDefinitions first. Undefined kinds are
        served under a guessed plural; they are namespaced unless they are known to be
        cluster-scoped.
        """
        loaded = []
        for manifest in saved_state.in_loading_order(objects):
            with self._lock:
                try:
                    loaded.append(saved_state.load(self._objects, manifest))
                except ApiError as error:
                    error.manifest = manifest
                    raise
        return loaded

    def compact(self) -> None:
        """Discard the history of changes: older watches end with `Expired`."""
        with self._lock:
            self._objects.store.compact()
            self._pages.forget()

    def objects(self) -> Sequence[KubeObject]:
        """Return all objects, by kind, namespace and name."""
        with self._lock:
            return saved_state.all_objects(self._objects)

    def save(self) -> dict[str, Any]:
        """Return the complete state as JSON data for `restore`."""
        with self._lock:
            return saved_state.save(self._objects)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Replace the state of this cluster by a saved one.

        Resource versions continue. The history is lost: open watches end with `Expired`.
        """
        with self._lock:
            objects = self._new_objects()
            saved_state.restore(objects, state)
            objects.runs_pods = self._objects.runs_pods
            self._objects = objects
            self._pages.forget()


def _attached(pods: PodAccess | None, name: str, namespace: str) -> PodAccess:
    if pods is None:
        raise pods_not_run(name, namespace)
    return pods
