"""A Kubernetes cluster inside this process."""

from __future__ import annotations

import random
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from threading import RLock
from typing import Any, Final, TypeAlias

from kanister_py.core.errors import (
    AlreadyExists,
    BadRequest,
    Cause,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    MethodNotAllowed,
    NoMatch,
    NotFound,
    PodsNotRun,
    UnsupportedMediaType,
    UsageError,
)
from kanister_py.core.objects.copies import copy_json
from kanister_py.core.objects.managed_fields import (
    Manager,
    after_update,
    apply_fields,
    read_managed_fields,
    write_managed_fields,
)
from kanister_py.core.objects.names import generate_name
from kanister_py.core.objects.openapi import set_defaults
from kanister_py.core.objects.parts import metadata_of, spec_of, status_of
from kanister_py.core.objects.patches import (
    InvalidPatch,
    json_patched,
    merge_patched,
    strategic_patched,
)
from kanister_py.core.objects.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    PODS,
    GroupVersionResource,
    ResourceKind,
)
from kanister_py.core.objects.selectors import (
    FieldSelector,
    label_selector_of,
    parse_field_selector,
    parse_label_selector,
    predicate_of,
    unknown_fields,
)
from kanister_py.embedded.cluster import admission, schemas
from kanister_py.embedded.cluster.catalogue import (
    Catalogue,
    Known,
    complaints_about_definition,
    set_definition_defaults,
    status_of_definition,
)
from kanister_py.embedded.cluster.deletion import Deletions
from kanister_py.embedded.cluster.store import MemoryWatch, Store, place_of
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


class StateNotReadable(UsageError):
    """A saved state of a cluster was written by a version that this one does not understand."""

    reason = "StateNotReadable"

    def __init__(self, found: object, wanted: str) -> None:
        super().__init__(f"The saved state has format {found!r}; this version reads {wanted!r}")
        self.found = found
        self.wanted = wanted


_FIRST_NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
_KEPT_NAMESPACES: Final = frozenset({"default", "kube-system", "kube-public"})
_OPEN_LISTS: Final = 100
STATE_FORMAT: Final = "kanister-py.io/cluster-state/v1"
_NAME_ATTEMPTS: Final = 8
_DEFAULT_MANAGER: Final = "kanister-py"

# What the cluster alone writes: taken over from what is there, whatever is sent.
_KEPT_METADATA: Final = (
    "name", "namespace", "uid", "resourceVersion", "creationTimestamp", "generation",
    "deletionTimestamp", "deletionGracePeriodSeconds", "generateName", "selfLink",
)  # fmt: skip
_NEW_METADATA: Final = (
    "uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds",
    "managedFields", "selfLink", "resourceVersion",
)  # fmt: skip


class MemoryCluster:
    """A cluster without machines: an API server's behaviour over dicts.

    Objects, their versions, watches, patches, server-side apply, finalizers and
    the garbage collection of what a deleted object owned are as in Kubernetes.
    Nothing else acts by itself: workloads are data, and pods run only if
    something that runs pods is attached.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        creates_namespaces: bool = True,
        default_namespace: str = "default",
        history_limit: int = 10_000,
        new_uid: Callable[[], str] | None = None,
        seed: int | None = None,
    ) -> None:
        self._clock = clock
        self._creates_namespaces = creates_namespaces
        self._default_namespace = default_namespace
        self._history_limit = history_limit
        self._new_uid = new_uid or (lambda: str(uuid.uuid4()))
        # Names need to differ, not to be secret.
        self._random = random.Random(seed)  # noqa: S311 # see above
        self._lock = RLock()
        self._catalogue = Catalogue()
        self._store = Store(history_limit)
        self._deletions = Deletions(self._catalogue, self._store, self._later, self._grace)
        self._open_lists: OrderedDict[str, tuple[str, list[KubeObject]]] = OrderedDict()
        self._pods: PodAccess | None = None
        self._second = (0, "")
        for name in (*_FIRST_NAMESPACES, default_namespace):
            self._ensure_namespace(name)

    # What it is

    @property
    def runs_pods(self) -> bool:
        return self._pods is not None

    @property
    def default_namespace(self) -> str:
        return self._default_namespace

    def attach_pods(self, pods: PodAccess | None) -> None:
        """Let somebody run this cluster's pods, and answer for their logs and commands."""
        self._pods = pods

    def resource_for(self, api_version: str, kind: str) -> ResourceKind:
        return self._catalogue.of(api_version, kind).kind

    def describe(self, resource: GroupVersionResource) -> ResourceKind:
        return self._catalogue.at(resource).kind

    def schema_of(self, api_version: str, kind: str) -> Mapping[str, Any] | None:
        """Give what a definition says: nobody describes the kinds that were there before."""
        try:
            return self._catalogue.of(api_version, kind).schema
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
        known = self._catalogue.at(resource)
        with self._lock:
            obj = self._find(known, namespace, name)
        if subresource == "scale":
            return self._scale_of(known, obj)
        if subresource not in {"", "status"}:
            raise NotFound("the server could not find the requested resource")
        return self._out(known, obj)

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
        known = self._catalogue.at(resource)
        if continue_token:
            return self._next_page(known, continue_token, limit)
        with self._lock:
            version = str(self._store.version)
            found = self._selected(known, namespace, label_selector, field_selector)
        return self._page(known, version, found, limit)

    def _selected(
        self, known: Known, namespace: str, label_selector: str, field_selector: str
    ) -> Sequence[KubeObject]:
        passes = predicate_of(parse_label_selector(label_selector), _fields(known, field_selector))
        rows = self._store.table(known.key).scan(namespace)
        found = [obj for obj in rows if passes(obj)] if passes is not None else [*rows]
        found.sort(key=place_of)
        return found

    def _page(
        self, known: Known, version: str, found: Sequence[KubeObject], limit: int
    ) -> ObjectList:
        shown, rest = (found[:limit], found[limit:]) if limit else (found, ())
        items = [self._out(known, obj) for obj in shown]
        if not rest:
            return ObjectList(items, version)
        with self._lock:
            token = f"{version}-{self._new_uid()}"
            self._open_lists[token] = (version, [*rest])
            if len(self._open_lists) > _OPEN_LISTS:
                self._open_lists.popitem(last=False)
        return ObjectList(items, version, token, len(rest))

    def _next_page(self, known: Known, token: str, limit: int) -> ObjectList:
        with self._lock:
            opened = self._open_lists.get(token)
        if opened is None:
            raise Expired(
                "The provided continue parameter is too old to display a consistent list result; "
                "list again without it"
            )
        version, found = opened
        return self._page(known, version, found, limit)

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
        known = self._catalogue.at(resource)
        fields = _fields(known, field_selector)
        watch = MemoryWatch(
            self._clock,
            namespace=namespace,
            name=fields.name,
            passes=predicate_of(parse_label_selector(label_selector), fields),
            api_version=resource.api_version,
            kind=known.kind.kind,
            timeout_seconds=timeout_seconds,
            bookmarks=bookmarks,
        )
        since = _version_of(resource_version)
        with self._lock:
            table = self._store.table(known.key)
            if since:
                changes = self._store.changes_since(table, since)
                watch.begin(since, ())
                for change in changes:
                    watch.offer(change)
            else:
                there = self._selected(known, namespace, label_selector, field_selector)
                watch.begin(self._store.version, there)
            self._store.add_watch(table, watch)

        def leave() -> None:
            with self._lock:
                self._store.remove_watch(table, watch)

        watch.when_closed(leave)
        return watch

    # Writing

    def create(
        self, obj: Mapping[str, Any], *, field_manager: str = "", dry_run: bool = False
    ) -> KubeObject:
        known, new = self._take_in(obj)
        metadata = new["metadata"]
        if metadata.get("resourceVersion"):
            raise BadRequest("resourceVersion should not be set on objects to be created")
        with self._lock:
            created = self._create(
                known, new, Manager(field_manager or _DEFAULT_MANAGER, "Update", ""), dry_run
            )
        return self._out(known, created)

    def _create(
        self, known: Known, new: KubeObject, manager: Manager, dry_run: bool, applied: Any = None
    ) -> KubeObject:
        metadata = new["metadata"]
        namespace = self._enter(known, metadata)
        self._name(known, metadata, namespace)
        for key in _NEW_METADATA:
            metadata.pop(key, None)
        if known.kind.has_status:
            new.pop("status", None)
        self._admit(known, new, None)
        if known.kind.is_builtin and known.kind.has_status:
            admission.set_first_status(new, known.kind)
        now = self._now()
        metadata["uid"] = self._new_uid()
        metadata["creationTimestamp"] = now
        if known.is_counted:
            metadata["generation"] = 1
        if known.kind.gvr == CUSTOM_RESOURCE_DEFINITIONS:
            new["status"] = status_of_definition(new, now)
        owner = Manager(manager.name, manager.operation, new["apiVersion"])
        ownership = (
            applied if applied is not None else after_update({}, None, new, known.rules, owner, now)
        )
        metadata["managedFields"] = write_managed_fields(ownership)
        if dry_run:
            return new
        self._store.put(known.key, new, None)
        self._deletions.note_owners(known, new, None)
        self._after_write(known, new)
        return new

    def replace(
        self,
        obj: Mapping[str, Any],
        *,
        subresource: str = "",
        field_manager: str = "",
        dry_run: bool = False,
    ) -> KubeObject:
        known, new = self._take_in(obj)
        metadata = new["metadata"]
        name = metadata.get("name", "")
        namespace = self._namespace_of(known, metadata.get("namespace", ""))
        with self._lock:
            before = self._find(known, namespace, name)
            version = metadata.get("resourceVersion", "")
            if not version and not known.kind.is_builtin:
                admission.refuse(
                    new,
                    known.kind,
                    [
                        Cause(
                            "metadata.resourceVersion",
                            "Invalid value: 0x0: must be specified for an update",
                        )
                    ],
                )
            self._check_preconditions(known, before, metadata.get("uid", ""), version)
            written = self._write(
                known, before, new, subresource, field_manager or _DEFAULT_MANAGER, dry_run
            )
        return self._out(known, written)

    def replace_status(self, obj: Mapping[str, Any], *, field_manager: str = "") -> KubeObject:
        return self.replace(obj, subresource="status", field_manager=field_manager)

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
        dry_run: bool = False,
    ) -> KubeObject:
        known = self._catalogue.at(resource)
        if subresource == "scale":
            return self._patch_scale(known, name, patch, namespace, patch_type)
        with self._lock:
            before = self._find(known, namespace, name)
            new = self._patched(known, self._out(known, before), patch, patch_type)
            metadata = new.get("metadata")
            if not isinstance(metadata, dict) or metadata.get("name") != name:
                raise BadRequest(
                    f"the name of the object ({(metadata or {}).get('name', '')}) does not match "
                    f"the name on the URL ({name})"
                )
            self._check_preconditions(
                known, before, metadata.get("uid", ""), metadata.get("resourceVersion", "")
            )
            admission.check_shape(new, known.kind)
            written = self._write(
                known, before, new, subresource, field_manager or _DEFAULT_MANAGER, dry_run
            )
        return self._out(known, written)

    def apply(
        self,
        obj: Mapping[str, Any],
        *,
        field_manager: str,
        force: bool = False,
        subresource: str = "",
        dry_run: bool = False,
    ) -> KubeObject:
        known, wanted = self._take_in(obj)
        metadata = wanted["metadata"]
        if not field_manager:
            raise Invalid(
                'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is '
                "required for apply patch",
                causes=[Cause("fieldManager", "Required value: is required for apply patch")],
            )
        if metadata.get("managedFields"):
            raise BadRequest("metadata.managedFields must be nil")
        name = metadata.get("name", "")
        if not name:
            raise Invalid("name is required", causes=[Cause("metadata.name", "Required value")])
        manager = Manager(field_manager, "Apply", wanted["apiVersion"], subresource)
        with self._lock:
            namespace = self._namespace_of(known, metadata.get("namespace", ""))
            before = self._store.table(known.key).get(namespace, name)
            said_version, said_uid = metadata.pop("resourceVersion", ""), metadata.pop("uid", "")
            wanted = _applied_part(known, wanted, subresource)
            if before is None:
                if subresource or said_version or said_uid:
                    raise _not_found(known, name)
                applied = apply_fields(
                    None, {}, wanted, known.rules, manager, self._now(), force=force
                )
                return self._out(
                    known,
                    self._create(known, applied.object, manager, dry_run, applied.ownership),
                )
            self._check_preconditions(known, before, said_uid, said_version)
            live = self._out(known, before)
            live["metadata"].pop("managedFields", None)
            applied = apply_fields(
                live,
                read_managed_fields(before["metadata"].get("managedFields")),
                wanted,
                known.rules,
                manager,
                self._now(),
                force=force,
            )
            written = self._write(
                known,
                before,
                applied.object,
                subresource,
                field_manager,
                dry_run,
                applied.ownership,
            )
        return self._out(known, written)

    def _write(
        self,
        known: Known,
        before: KubeObject,
        new: KubeObject,
        subresource: str,
        field_manager: str,
        dry_run: bool,
        ownership: Any = None,
    ) -> KubeObject:
        """Put `new`, which nobody else holds, in place of `before`."""
        if subresource not in {"", "status"} or (subresource and not known.kind.has_status):
            raise NotFound("the server could not find the requested resource")
        new = _combined(known, before, new, subresource)
        metadata, old = new["metadata"], before["metadata"]
        _keep_metadata(metadata, old)
        if not subresource:
            self._admit(known, new, before)
        elif known.schema is not None:
            self._admit_custom(known, new)
        metadata["managedFields"] = old.get("managedFields", [])
        now = self._now()
        if ownership is None:
            if new == before:
                return before
            manager = Manager(field_manager, "Update", new["apiVersion"], subresource)
            ownership = after_update(
                read_managed_fields(metadata["managedFields"]),
                before,
                new,
                known.rules,
                manager,
                now,
            )
        metadata["managedFields"] = write_managed_fields(ownership)
        if new == before:
            return before
        self._check_finalizers(known, new, before)
        if known.is_counted and not subresource and _is_wanted_anew(known, new, before):
            metadata["generation"] = old.get("generation", 1) + 1
        if dry_run:
            return new
        self._deletions.note_owners(known, new, before)
        if "deletionTimestamp" in metadata and self._deletions.is_free(known, new):
            return self._deletions.remove(known, new, before)
        self._store.put(known.key, new, before)
        self._after_write(known, new)
        return new

    def scale(
        self,
        resource: GroupVersionResource,
        name: str,
        replicas: int,
        *,
        namespace: str = "",
        resource_version: str = "",
    ) -> KubeObject:
        known = self._catalogue.at(resource)
        path = self._scale_path(known, "specReplicasPath")
        if replicas < 0:
            raise Invalid(
                f'Scale.autoscaling "{name}" is invalid: spec.replicas: Invalid value: '
                f"{replicas}: must be greater than or equal to 0",
                causes=[Cause("spec.replicas", "must be greater than or equal to 0")],
            )
        with self._lock:
            before = self._find(known, namespace, name)
            self._check_preconditions(known, before, "", resource_version)
            new = copy_json(before)
            target = new
            for step in path[:-1]:
                target = target.setdefault(step, {})
            target[path[-1]] = replicas
            written = self._write(known, before, new, "", _DEFAULT_MANAGER, dry_run=False)
        return self._scale_of(known, written)

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
        dry_run: bool = False,
    ) -> KubeObject:
        known = self._catalogue.at(resource)
        with self._lock:
            before = self._find(known, namespace, name)
            metadata = before["metadata"]
            for label, said, found in (
                ("UID", uid, metadata["uid"]),
                ("ResourceVersion", resource_version, metadata["resourceVersion"]),
            ):
                if said and said != found:
                    raise _conflict(
                        known,
                        name,
                        f"Precondition failed: {label} in precondition: {said}, {label} in object "
                        f"meta: {found}",
                    )
            if known.kind.gvr == NAMESPACES and name in _KEPT_NAMESPACES:
                raise Forbidden(
                    f'namespaces "{name}" is forbidden: this namespace may not be deleted',
                    resource="namespaces",
                    name=name,
                )
            if dry_run:
                return self._out(known, before)
            gone = self._deletions.delete(known, before, grace_period_seconds, propagation)
            return self._out(known, gone)

    def delete_collection(
        self,
        resource: GroupVersionResource,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        grace_period_seconds: int | None = None,
        propagation: Propagation | None = None,
    ) -> None:
        known = self._catalogue.at(resource)
        if known.kind.gvr == NAMESPACES:
            raise MethodNotAllowed(
                "the server does not allow this method on the requested resource"
            )
        with self._lock:
            for obj in self._selected(known, namespace, label_selector, field_selector):
                # What went before may have taken this one with it.
                here = self._store.table(known.key).get(*place_of(obj))
                if here is not None:
                    self._deletions.delete(known, here, grace_period_seconds, propagation)

    def _grace(self, obj: KubeObject, asked: int | None) -> int:
        """Say how many seconds an object may live on. Only a pod that somebody runs takes time."""
        if obj["kind"] != "Pod" or obj["apiVersion"] != "v1" or self._pods is None:
            return 0
        spec, phase = obj["spec"], status_of(obj).get("phase")
        if not spec.get("nodeName") or phase in {"Succeeded", "Failed"}:
            return 0
        return int(spec.get("terminationGracePeriodSeconds", 30) if asked is None else asked)

    # Scale

    def _scale_path(self, known: Known, which: str) -> Sequence[str]:
        if not known.kind.has_scale:
            raise NotFound("the server could not find the requested resource")
        path = known.scale_paths.get(which) or ".spec.replicas"
        return path.lstrip(".").split(".")

    def _scale_of(self, known: Known, obj: KubeObject) -> KubeObject:
        metadata = obj["metadata"]
        wanted = _read(obj, self._scale_path(known, "specReplicasPath"))
        status: dict[str, Any] = {"replicas": status_of(obj).get("replicas", 0)}
        selector = spec_of(obj).get("selector")
        if isinstance(selector, Mapping):
            is_plain = not {"matchLabels", "matchExpressions"} & selector.keys()
            status["selector"] = str(
                label_selector_of({"matchLabels": selector} if is_plain else selector)
            )
        kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        return {
            "apiVersion": "autoscaling/v1",
            "kind": "Scale",
            "metadata": {key: metadata[key] for key in kept if key in metadata},
            "spec": {"replicas": wanted} if wanted else {},
            "status": status,
        }

    def _patch_scale(
        self, known: Known, name: str, patch: Patch, namespace: str, patch_type: PatchType
    ) -> KubeObject:
        with self._lock:
            scale = self._scale_of(known, self._find(known, namespace, name))
            if isinstance(patch, Mapping):
                scale = merge_patched(scale, patch)
            else:
                scale = _patched_json(scale, patch, patch_type)
            replicas = spec_of(scale).get("replicas", 0)
            if isinstance(replicas, bool) or not isinstance(replicas, int):
                raise BadRequest(f"spec.replicas of a Scale must be a number, not {replicas!r}")
            return self.scale(known.kind.gvr, name, replicas, namespace=namespace)

    # Pods

    def read_log(
        self, name: str, *, namespace: str, options: LogOptions | None = None
    ) -> LogStream:
        return self._pod_access(name, namespace).read_log(
            name, namespace=namespace, options=options or LogOptions()
        )

    def exec(
        self,
        name: str,
        command: Sequence[str],
        *,
        namespace: str,
        container: str = "",
        has_stdin: bool = False,
        is_tty: bool = False,
    ) -> ExecSession:
        return self._pod_access(name, namespace).exec(
            name,
            command,
            namespace=namespace,
            container=container,
            has_stdin=has_stdin,
            is_tty=is_tty,
        )

    def _pod_access(self, name: str, namespace: str) -> PodAccess:
        self.get(PODS, name, namespace=namespace)
        if self._pods is None:
            raise PodsNotRun(name, namespace)
        return self._pods

    # Beyond a cluster's own interface

    def load(self, objects: Iterable[Mapping[str, Any]]) -> Sequence[KubeObject]:
        """Take in objects as their manifests state them, with their status, over what is there.

        For people who bring the state of a cluster along: namespaces are made
        as needed, definitions come before what they define, and a kind that
        nobody has defined is served from here on under a guessed plural, in a
        namespace if the object names one or is none of the usual exceptions.
        """
        loaded: _Loaded = []
        definitions_first = sorted(
            objects, key=lambda obj: _LOAD_ORDER.get(str(obj.get("kind")), len(_LOAD_ORDER))
        )
        for given in definitions_first:
            if given.get("kind") == "List" and given.get("apiVersion") == "v1":
                loaded.extend(self.load(given.get("items") or ()))
                continue
            loaded.append(self._load_one(given))
        return loaded

    def _load_one(self, given: Mapping[str, Any]) -> KubeObject:
        api_version, kind_name = given.get("apiVersion"), given.get("kind")
        with self._lock:
            if isinstance(api_version, str) and isinstance(kind_name, str) and kind_name:
                try:
                    self._catalogue.of(api_version, kind_name)
                except NotFound:
                    self._catalogue.guess(api_version, kind_name)
            known, new = self._take_in(given)
            metadata = new["metadata"]
            status = copy_json(given.get("status"))
            metadata.pop("resourceVersion", None)
            metadata.pop("uid", None)
            namespace = self._namespace_of(known, metadata.get("namespace", ""))
            if namespace:
                self._ensure_namespace(namespace)
            name = metadata.get("name", "")
            there = self._store.table(known.key).get(namespace, name)
            manager = Manager(_DEFAULT_MANAGER, "Update", "")
            if there is None:
                kept = self._create(known, new, manager, dry_run=False)
            else:
                kept = self._write(known, there, new, "", manager.name, dry_run=False)
            if status is not None and known.kind.gvr != CUSTOM_RESOURCE_DEFINITIONS:
                with_status = {**copy_json(kept), "status": status}
                subresource = "status" if known.kind.has_status else ""
                kept = self._write(
                    known, kept, with_status, subresource, manager.name, dry_run=False
                )
            return self._out(known, kept)

    def compact(self) -> None:
        """Forget the history of changes: whoever watches from before now is told `Expired`."""
        with self._lock:
            self._store.compact()
            self._open_lists.clear()

    def objects(self) -> Sequence[KubeObject]:
        """Give back every object there is, by kind, namespace and name."""
        with self._lock:
            return [
                copy_json(obj)
                for key in sorted(self._store.tables)
                for obj in sorted(self._store.tables[key].scan(""), key=place_of)
            ]

    def save(self) -> dict[str, Any]:
        """Give back the whole state as JSON knows it; `restore` makes a cluster of it again."""
        with self._lock:
            guessed = [
                {"apiVersion": known.kind.gvr.api_version, "kind": known.kind.kind}
                for known in self._catalogue
                if known.is_guessed
            ]
            return {
                "format": STATE_FORMAT,
                "resourceVersion": self._store.version,
                "guessedKinds": guessed,
                "objects": list(self.objects()),
            }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Become the cluster that was saved, in place of all that is here.

        Versions go on from where they stood. The history does not survive:
        watches from before are told `Expired`.
        """
        if state.get("format") != STATE_FORMAT:
            raise StateNotReadable(state.get("format"), STATE_FORMAT)
        with self._lock:
            self._catalogue = Catalogue()
            self._store = Store(self._history_limit)
            self._deletions = Deletions(self._catalogue, self._store, self._later, self._grace)
            self._open_lists.clear()
            for guessed in state["guessedKinds"]:
                self._catalogue.guess(guessed["apiVersion"], guessed["kind"])
            objects = [copy_json(obj) for obj in state["objects"]]
            for obj in objects:
                if obj["kind"] == "CustomResourceDefinition":
                    self._catalogue.define(obj)
            for obj in objects:
                known = self._catalogue.of(obj["apiVersion"], obj["kind"])
                self._store.adopt(known.key, obj)
                self._deletions.note_owners(known, obj, None)
            self._store.version = int(state["resourceVersion"])
            self._store.compact()

    # Within a write

    def _take_in(self, obj: Mapping[str, Any]) -> tuple[Known, KubeObject]:
        """Copy what was handed in, and find out what it is."""
        api_version, kind = obj.get("apiVersion"), obj.get("kind")
        if not isinstance(kind, str) or not kind:
            raise BadRequest("Object 'Kind' is missing")
        if not isinstance(api_version, str) or not api_version:
            raise BadRequest("Object 'apiVersion' is missing")
        known = self._catalogue.of(api_version, kind)
        if not isinstance(metadata_of(obj), Mapping):
            raise BadRequest(f"metadata of a {kind} must be an object")
        admission.check_shape(obj, known.kind)
        new: KubeObject = copy_json(obj)
        metadata = new.setdefault("metadata", {})
        if not known.kind.is_namespaced:
            metadata.pop("namespace", None)
        for key in [key for key, value in metadata.items() if value is None]:
            del metadata[key]
        return known, new

    def _out(self, known: Known, obj: KubeObject) -> KubeObject:
        """Copy what is kept, in the version asked for."""
        copied: KubeObject = copy_json(obj)
        copied["apiVersion"] = known.kind.gvr.api_version
        return copied

    def _find(self, known: Known, namespace: str, name: str) -> KubeObject:
        obj = self._store.table(known.key).get(self._namespace_of(known, namespace), name)
        if obj is None:
            raise _not_found(known, name)
        return obj

    def _namespace_of(self, known: Known, namespace: str) -> str:
        if not known.kind.is_namespaced:
            return ""
        return namespace or self._default_namespace

    def _enter(self, known: Known, metadata: dict[str, Any]) -> str:
        """Say in which namespace a new object lands, and see that it is there."""
        if not known.kind.is_namespaced:
            return ""
        namespace: str = metadata.get("namespace") or self._default_namespace
        metadata["namespace"] = namespace
        there = self._store.table(_NAMESPACES_KEY).get("", namespace)
        if there is None:
            if not self._creates_namespaces:
                raise NotFound(
                    f'namespaces "{namespace}" not found', resource="namespaces", name=namespace
                )
            self._ensure_namespace(namespace)
        elif "deletionTimestamp" in there["metadata"]:
            name = metadata.get("name") or metadata.get("generateName", "")
            raise Forbidden(
                f'{known.kind.gvr.group_resource} "{name}" is forbidden: unable to create new '
                f"content in namespace {namespace} because it is being terminated",
                resource=known.kind.gvr.group_resource,
                name=name,
            )
        return namespace

    def _ensure_namespace(self, name: str) -> None:
        known = self._catalogue.at(NAMESPACES)
        if self._store.table(known.key).get("", name) is None:
            manager = Manager(_DEFAULT_MANAGER, "Update", "")
            new = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            self._create(known, new, manager, dry_run=False)

    def _name(self, known: Known, metadata: dict[str, Any], namespace: str) -> None:
        """Give a new object a name that nobody has."""
        table = self._store.table(known.key)
        resource = known.kind.gvr.group_resource
        name = metadata.get("name", "")
        if name:
            if table.get(namespace, name) is not None:
                raise AlreadyExists(
                    f'{resource} "{name}" already exists', resource=resource, name=name
                )
            return
        prefix = metadata.get("generateName", "")
        if not prefix:
            raise Invalid(
                f'{known.kind.group_kind} "" is invalid: metadata.name: Required value: name or '
                "generateName is required",
                resource=resource,
                causes=[
                    Cause(
                        "metadata.name",
                        "Required value: name or generateName is required",
                        "FieldValueRequired",
                    )
                ],
            )
        for _ in range(_NAME_ATTEMPTS):
            name = generate_name(prefix, self._random.choice)
            if table.get(namespace, name) is None:
                metadata["name"] = name
                return
        raise AlreadyExists(
            f'{resource} "{name}" already exists, the server was not able to generate a unique '
            "name for the object",
            resource=resource,
            name=name,
        )

    def _admit(self, known: Known, new: KubeObject, before: KubeObject | None) -> None:
        if known.kind.gvr == CUSTOM_RESOURCE_DEFINITIONS:
            set_definition_defaults(new)
            admission.refuse(new, known.kind, complaints_about_definition(new))
        elif known.kind.is_builtin:
            admission.set_defaults(new, known.kind)
        elif known.schema is not None:
            self._admit_custom(known, new)
        admission.check(new, before, known.kind)

    def _admit_custom(self, known: Known, new: KubeObject) -> None:
        schema = known.schema or {}
        schemas.prune(new, schema, is_root=True)
        set_defaults(new, schema)
        admission.refuse(new, known.kind, schemas.complaints(new, schema))

    def _check_preconditions(
        self, known: Known, before: KubeObject, uid: str, version: str
    ) -> None:
        metadata = before["metadata"]
        name = metadata["name"]
        if uid and uid != metadata["uid"]:
            raise _conflict(
                known,
                name,
                f"Precondition failed: UID in precondition: {uid}, UID in object meta: "
                f"{metadata['uid']}",
            )
        if version and version != metadata["resourceVersion"]:
            raise _conflict(
                known,
                name,
                "the object has been modified; please apply your changes to the latest version "
                "and try again",
            )

    def _patched(
        self, known: Known, there: KubeObject, patch: Patch, patch_type: PatchType
    ) -> KubeObject:
        if patch_type is PatchType.JSON:
            if isinstance(patch, Mapping):
                raise BadRequest("a JSON patch is a list of operations")
            return _patched_json(there, patch, patch_type)
        if not isinstance(patch, Mapping):
            raise BadRequest(f"{patch_type} is an object, not a list of operations")
        if patch_type is PatchType.MERGE:
            merged: KubeObject = merge_patched(there, patch)
            return merged
        if not known.kind.is_builtin:
            raise UnsupportedMediaType(
                "the body of the request was in an unknown format - accepted media types include: "
                "application/json-patch+json, application/merge-patch+json, "
                "application/apply-patch+yaml"
            )
        try:
            return strategic_patched(there, patch, known.rules)
        except InvalidPatch as error:
            raise BadRequest(error.message) from error

    def _check_finalizers(self, known: Known, new: KubeObject, before: KubeObject) -> None:
        if "deletionTimestamp" not in before["metadata"]:
            return
        had = before["metadata"].get("finalizers") or ()
        added = [f for f in new["metadata"].get("finalizers") or () if f not in had]
        if added:
            admission.refuse(
                new,
                known.kind,
                [
                    Cause(
                        "metadata.finalizers",
                        "Forbidden: no new finalizers can be added if the object is being "
                        f"deleted, found new finalizers {added}",
                        "FieldValueForbidden",
                    )
                ],
            )

    def _after_write(self, known: Known, obj: KubeObject) -> None:
        if known.kind.gvr == CUSTOM_RESOURCE_DEFINITIONS:
            self._catalogue.define(obj)

    def _now(self) -> str:
        now = self._clock.now()
        second = int(now.timestamp())
        if self._second[0] != second:
            self._second = (second, now.strftime(_TIME_FORMAT))
        return self._second[1]

    def _later(self, seconds: int) -> str:
        return (self._clock.now() + timedelta(seconds=seconds)).strftime(_TIME_FORMAT)


_Loaded: TypeAlias = list[KubeObject]
_TIME_FORMAT: Final = "%Y-%m-%dT%H:%M:%SZ"
_NAMESPACES_KEY: Final = ("", "namespaces")
_LOAD_ORDER: Final = {"CustomResourceDefinition": 0, "Namespace": 1}


def _fields(known: Known, text: str) -> FieldSelector:
    selector = parse_field_selector(text)
    resource = known.kind.gvr.group_resource
    unknown = unknown_fields(selector, resource, known.selectable)
    if unknown:
        raise BadRequest(f"field label not supported: {', '.join(unknown)}", resource=resource)
    return selector


def _version_of(text: str) -> int:
    if not text or text == "0":
        return 0
    if not text.isdecimal():
        raise Invalid(
            f'Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax',
            causes=[Cause("resourceVersion", f'Invalid value: "{text}"')],
        )
    return int(text)


def _not_found(known: Known, name: str) -> NotFound:
    resource = known.kind.gvr.group_resource
    return NotFound(f'{resource} "{name}" not found', resource=resource, name=name)


def _conflict(known: Known, name: str, why: str) -> Conflict:
    resource = known.kind.gvr.group_resource
    return Conflict(
        f'Operation cannot be fulfilled on {resource} "{name}": {why}', resource=resource, name=name
    )


def _patched_json(there: KubeObject, patch: Any, patch_type: PatchType) -> KubeObject:
    if patch_type is not PatchType.JSON:
        raise BadRequest(f"{patch_type} is an object, not a list of operations")
    try:
        patched: KubeObject = json_patched(there, patch)
    except InvalidPatch as error:
        raise Invalid(error.message, causes=[Cause("", error.message)]) from error
    return patched


def _combined(known: Known, before: KubeObject, new: KubeObject, subresource: str) -> KubeObject:
    """Put together what a write may change and what it may not."""
    if subresource == "status":
        combined: KubeObject = copy_json(before)
        combined.pop("status", None)
        if new.get("status") is not None:
            combined["status"] = new["status"]
        return combined
    if known.kind.has_status:
        new.pop("status", None)
        if "status" in before:
            new["status"] = before["status"]
    # One kind, one stored version: objects are told apart by nothing else.
    new["apiVersion"], new["kind"] = before["apiVersion"], before["kind"]
    return new


def _keep_metadata(metadata: dict[str, Any], old: Mapping[str, Any]) -> None:
    """Take over what the cluster alone writes, whatever was sent."""
    for key in _KEPT_METADATA:
        if key in old:
            metadata[key] = old[key]
        else:
            metadata.pop(key, None)


def _applied_part(known: Known, wanted: KubeObject, subresource: str) -> KubeObject:
    """Leave out what an apply to this place does not reach."""
    if subresource == "status":
        metadata = wanted["metadata"]
        part: KubeObject = {
            key: wanted[key] for key in ("apiVersion", "kind", "status") if key in wanted
        }
        kept = {key: metadata[key] for key in ("name", "namespace") if key in metadata}
        return {**part, "metadata": kept}
    if known.kind.has_status:
        wanted.pop("status", None)
    return wanted


def _is_wanted_anew(known: Known, new: KubeObject, before: KubeObject) -> bool:
    """Say whether a write changed what is wanted, not what is."""
    left_out = {"metadata", "apiVersion"} | ({"status"} if known.kind.has_status else set())
    return any(new.get(key) != before.get(key) for key in {**new, **before} if key not in left_out)


def _read(obj: KubeObject, path: Sequence[str]) -> Any:
    value: Any = obj
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value
