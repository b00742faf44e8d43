"""Objects in memory: admission, names, metadata and writes."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from datetime import timedelta
from typing import Any, Final
from uuid import uuid4

from kanister_py.core.errors import AlreadyExists, BadRequest, Cause, Forbidden, Invalid, NotFound
from kanister_py.core.kube import admission
from kanister_py.core.kube.copies import copy_json
from kanister_py.core.kube.crd_schemas import prune, schema_problems
from kanister_py.core.kube.managed_fields import (
    Manager,
    after_update,
    apply_fields,
    read_managed_fields,
    write_managed_fields,
)
from kanister_py.core.kube.names import generate_name
from kanister_py.core.kube.openapi import set_defaults
from kanister_py.core.kube.parts import status_of
from kanister_py.core.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES
from kanister_py.core.kube.timestamps import timestamp
from kanister_py.embedded.cluster.catalogue import (
    Catalogue,
    KindEntry,
    definition_problems,
    set_definition_defaults,
    status_of_definition,
)
from kanister_py.embedded.cluster.deletion import Deletions
from kanister_py.embedded.cluster.lists import copy_as_served
from kanister_py.embedded.cluster.patching import (
    applied_part,
    changes_spec,
    check_finalizers,
    check_preconditions,
    combined,
)
from kanister_py.embedded.cluster.store import Store
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import KubeObject

DEFAULT_MANAGER: Final = "kanister-py"
_NAME_ATTEMPTS: Final = 8
_NAMESPACES_KEY: Final = ("", "namespaces")
_NEW_METADATA: Final = (
    "uid",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
    "resourceVersion",
)


class Objects:
    """All objects and the operations that change them. The caller holds the cluster's lock."""

    def __init__(
        self,
        clock: Clock,
        *,
        default_namespace: str,
        history_limit: int,
        new_uid: Callable[[], str] | None,
        seed: int | None,
    ) -> None:
        self.catalogue = Catalogue()
        self.store = Store(history_limit)
        self.deletions = Deletions(self.catalogue, self.store, self._later, self._grace)
        self.default_namespace = default_namespace
        self.runs_pods = False
        self._clock = clock
        self._new_uid = new_uid or (lambda: str(uuid4()))
        # Names must be unique, not unpredictable.
        self._random = random.Random(seed)  # noqa: S311 - see above
        self._second = (0, "")

    # Finding

    def parse_object(self, obj: Mapping[str, Any]) -> tuple[KindEntry, KubeObject]:
        """Return the kind of an object and a copy of it. Checks its basic shape."""
        api_version, kind = obj.get("apiVersion"), obj.get("kind")
        if not isinstance(kind, str) or not kind:
            raise BadRequest("Object 'Kind' is missing")
        if not isinstance(api_version, str) or not api_version:
            raise BadRequest("Object 'apiVersion' is missing")
        entry = self.catalogue.of(api_version, kind)
        if not isinstance(obj.get("metadata", {}), Mapping):
            raise BadRequest(f"metadata of a {kind} must be an object")
        admission.check_shape(obj, entry.kind)
        new: KubeObject = copy_json(obj)
        metadata = new.setdefault("metadata", {})
        if not entry.kind.is_namespaced:
            metadata.pop("namespace", None)
        for key in [key for key, value in metadata.items() if value is None]:
            del metadata[key]
        return entry, new

    def find(self, entry: KindEntry, namespace: str, name: str) -> KubeObject:
        obj = self.lookup(entry, namespace, name)
        if obj is None:
            raise _not_found(entry, name)
        return obj

    def lookup(self, entry: KindEntry, namespace: str, name: str) -> KubeObject | None:
        place = (namespace or self.default_namespace) if entry.kind.is_namespaced else ""
        return self.store.table(entry.key).get(place, name)

    # Writing

    def create(
        self,
        entry: KindEntry,
        new: KubeObject,
        manager: Manager,
        *,
        applied: Any = None,
    ) -> KubeObject:
        """Store a new object. The caller must not keep `new`."""
        metadata = new["metadata"]
        namespace = self._resolve_namespace(entry, metadata)
        self._assign_name(entry, metadata, namespace)
        for key in _NEW_METADATA:
            metadata.pop(key, None)
        if entry.kind.has_status:
            new.pop("status", None)
        self._admit(entry, new, None)
        if entry.kind.is_builtin and entry.kind.has_status:
            admission.set_first_status(new, entry.kind)
        now = self._now()
        metadata["uid"] = self._new_uid()
        metadata["creationTimestamp"] = now
        if entry.is_counted:
            metadata["generation"] = 1
        if entry.kind.gvr == CUSTOM_RESOURCE_DEFINITIONS:
            new["status"] = status_of_definition(new, now)
        if applied is None:
            owner = Manager(manager.name, manager.operation, new["apiVersion"])
            applied = after_update({}, None, new, entry.rules, owner, now)
        metadata["managedFields"] = write_managed_fields(applied)
        self.deletions.index_owners(entry, new, None)
        self._store(entry, new, None)
        return new

    def write(
        self,
        entry: KindEntry,
        before: KubeObject,
        new: KubeObject,
        subresource: str = "",
        field_manager: str = "",
        *,
        dry_run: bool = False,
        ownership: Any = None,
    ) -> KubeObject:
        """Replace `before` by `new`. The caller must not keep `new`."""
        if subresource not in {"", "status"} or (subresource and not entry.kind.has_status):
            raise NotFound("the server could not find the requested resource")
        new = combined(entry, before, new, subresource)
        metadata, old = new["metadata"], before["metadata"]
        if not subresource:
            self._admit(entry, new, before)
        elif entry.schema is not None:
            _admit_custom(entry, new, before)
        metadata["managedFields"] = old.get("managedFields", [])
        if ownership is None:
            if new == before:
                return before
            name = field_manager or DEFAULT_MANAGER
            ownership = after_update(
                read_managed_fields(metadata["managedFields"]),
                before,
                new,
                entry.rules,
                Manager(name, "Update", new["apiVersion"], subresource),
                self._now(),
            )
        metadata["managedFields"] = write_managed_fields(ownership)
        if new == before:
            return before
        check_finalizers(entry, new, before)
        if entry.is_counted and not subresource and changes_spec(entry, new, before):
            metadata["generation"] = old.get("generation", 1) + 1
        if dry_run:
            return new
        self.deletions.index_owners(entry, new, before)
        if "deletionTimestamp" in metadata and self.deletions.can_be_removed(entry, new):
            return self.deletions.remove(entry, new, before)
        self._store(entry, new, before)
        return new

    def apply(
        self, entry: KindEntry, desired: KubeObject, manager: Manager, *, force: bool
    ) -> KubeObject:
        """Apply the fields of a manager, and remove its former fields."""
        metadata, subresource = desired["metadata"], manager.subresource
        name = metadata["name"]
        before = self.lookup(entry, metadata.get("namespace", ""), name)
        version, uid = metadata.pop("resourceVersion", ""), metadata.pop("uid", "")
        desired = applied_part(entry, desired, subresource)
        if before is None:
            if subresource or version or uid:
                raise _not_found(entry, name)
            applied_object = apply_fields(
                None, {}, desired, entry.rules, manager, self._now(), force=force
            )
            return self.create(
                entry, applied_object.object, manager, applied=applied_object.ownership
            )
        check_preconditions(entry, before, uid, version)
        live = copy_as_served(entry, before)
        live["metadata"].pop("managedFields", None)
        applied_object = apply_fields(
            live,
            read_managed_fields(before["metadata"].get("managedFields")),
            desired,
            entry.rules,
            manager,
            self._now(),
            force=force,
        )
        return self.write(
            entry,
            before,
            applied_object.object,
            subresource,
            manager.name,
            ownership=applied_object.ownership,
        )

    def ensure_namespace(self, name: str) -> None:
        entry = self.catalogue.at(NAMESPACES)
        if self.store.table(entry.key).get("", name) is None:
            new = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            self.create(entry, new, Manager(DEFAULT_MANAGER, "Update", ""))

    def _store(self, entry: KindEntry, new: KubeObject, before: KubeObject | None) -> None:
        self.store.put(entry.key, new, before)
        if entry.kind.gvr == CUSTOM_RESOURCE_DEFINITIONS:
            self.catalogue.define(new)

    def _resolve_namespace(self, entry: KindEntry, metadata: dict[str, Any]) -> str:
        """Return the namespace of a new object. Creates it if it does not exist."""
        if not entry.kind.is_namespaced:
            return ""
        namespace: str = metadata.get("namespace") or self.default_namespace
        metadata["namespace"] = namespace
        existing = self.store.table(_NAMESPACES_KEY).get("", namespace)
        if existing is None:
            self.ensure_namespace(namespace)
        elif "deletionTimestamp" in existing["metadata"]:
            name = metadata.get("name") or metadata.get("generateName", "")
            resource = entry.kind.gvr.group_resource
            raise Forbidden(
                f'{resource} "{name}" is forbidden: unable to create new '
                f"content in namespace {namespace} because it is being terminated",
                resource=resource,
                name=name,
            )
        return namespace

    def _assign_name(self, entry: KindEntry, metadata: dict[str, Any], namespace: str) -> None:
        """Set the name of a new object, and generate it if necessary."""
        table = self.store.table(entry.key)
        resource = entry.kind.gvr.group_resource
        name, prefix = metadata.get("name", ""), metadata.get("generateName", "")
        if not name and not prefix:
            why = "Required value: name or generateName is required"
            raise Invalid(
                f'{entry.kind.group_kind} "" is invalid: metadata.name: {why}',
                resource=resource,
                causes=[Cause("metadata.name", why, "FieldValueRequired")],
            )
        more = ""
        if name:
            is_taken = table.get(namespace, name) is not None
        else:
            for _ in range(_NAME_ATTEMPTS):
                name = generate_name(prefix, self._random.choice)
                is_taken = table.get(namespace, name) is not None
                if not is_taken:
                    break
            more = ", the server was not able to generate a unique name for the object"
        if is_taken:
            raise AlreadyExists(
                f'{resource} "{name}" already exists{more}', resource=resource, name=name
            )
        metadata["name"] = name

    def _admit(self, entry: KindEntry, new: KubeObject, before: KubeObject | None) -> None:
        if entry.kind.gvr == CUSTOM_RESOURCE_DEFINITIONS:
            set_definition_defaults(new)
            admission.refuse(new, entry.kind, definition_problems(new))
        elif entry.kind.is_builtin:
            admission.set_defaults(new, entry.kind)
        elif entry.schema is not None:
            _admit_custom(entry, new, before)
        admission.check(new, before, entry.kind)

    # Time

    def _grace(self, obj: KubeObject, requested: int | None) -> int:
        """Return the grace period of a deletion. Only running pods have one."""
        if not self.runs_pods or obj["kind"] != "Pod" or obj["apiVersion"] != "v1":
            return 0
        spec, phase = obj["spec"], status_of(obj).get("phase")
        if not spec.get("nodeName") or phase in {"Succeeded", "Failed"}:
            return 0
        return int(
            spec.get("terminationGracePeriodSeconds", 30) if requested is None else requested
        )

    def _now(self) -> str:
        now = self._clock.now()
        second = int(now.timestamp())
        if self._second[0] != second:
            self._second = (second, timestamp(now))
        return self._second[1]

    def _later(self, seconds: int) -> str:
        return timestamp(self._clock.now() + timedelta(seconds=seconds))


def _admit_custom(entry: KindEntry, new: KubeObject, before: KubeObject | None) -> None:
    schema = entry.schema or {}
    # Unchanged fields were admitted with the previous object, which shares them.
    shared = {key for key in new if before is not None and new[key] is before.get(key)}
    fresh = {key: value for key, value in new.items() if key not in shared}
    partial_schema = _without(schema, shared)
    prune(fresh, partial_schema, is_root=True)
    set_defaults(fresh, partial_schema)
    for key in [key for key in new if key not in shared and key not in fresh]:
        del new[key]
    new.update(fresh)
    admission.refuse(new, entry.kind, schema_problems(fresh, partial_schema))
    if entry.has_rules:
        # Few kinds have rules, and CEL takes time to load.
        from kanister_py.core.kube.crd_rules import broken_rules

        admission.refuse(new, entry.kind, broken_rules(new, before, schema))


def _without(schema: Mapping[str, Any], keys: AbstractSet[str]) -> Mapping[str, Any]:
    """Return a schema without some properties."""
    if not keys:
        return schema
    properties = schema.get("properties") or {}
    return {
        **schema,
        "properties": {key: value for key, value in properties.items() if key not in keys},
        "required": [key for key in schema.get("required") or () if key not in keys],
    }


def _not_found(entry: KindEntry, name: str) -> NotFound:
    resource = entry.kind.gvr.group_resource
    return NotFound(f'{resource} "{name}" not found', resource=resource, name=name)
