"""Objects in memory: how they are named, admitted, counted, kept and let go."""

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
    Known,
    complaints_about_definition,
    set_definition_defaults,
    status_of_definition,
)
from kanister_py.embedded.cluster.deletion import Deletions
from kanister_py.embedded.cluster.lists import copy_out
from kanister_py.embedded.cluster.patching import (
    applied_part,
    check_finalizers,
    check_preconditions,
    combined,
    is_wanted_anew,
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
    """All objects, and every way to change one. The caller holds the cluster's lock."""

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
        # Names need to differ, not to be secret.
        self._random = random.Random(seed)  # noqa: S311 # see above
        self._second = (0, "")

    # Finding

    def take_in(self, obj: Mapping[str, Any]) -> tuple[Known, KubeObject]:
        """Copy what was handed in, and find out what it is."""
        api_version, kind = obj.get("apiVersion"), obj.get("kind")
        if not isinstance(kind, str) or not kind:
            raise BadRequest("Object 'Kind' is missing")
        if not isinstance(api_version, str) or not api_version:
            raise BadRequest("Object 'apiVersion' is missing")
        known = self.catalogue.of(api_version, kind)
        if not isinstance(obj.get("metadata", {}), Mapping):
            raise BadRequest(f"metadata of a {kind} must be an object")
        admission.check_shape(obj, known.kind)
        new: KubeObject = copy_json(obj)
        metadata = new.setdefault("metadata", {})
        if not known.kind.is_namespaced:
            metadata.pop("namespace", None)
        for key in [key for key, value in metadata.items() if value is None]:
            del metadata[key]
        return known, new

    def find(self, known: Known, namespace: str, name: str) -> KubeObject:
        obj = self.look_up(known, namespace, name)
        if obj is None:
            raise _not_found(known, name)
        return obj

    def look_up(self, known: Known, namespace: str, name: str) -> KubeObject | None:
        place = (namespace or self.default_namespace) if known.kind.is_namespaced else ""
        return self.store.table(known.key).get(place, name)

    # Writing

    def create(
        self,
        known: Known,
        new: KubeObject,
        manager: Manager,
        *,
        applied: Any = None,
    ) -> KubeObject:
        """Keep a new object, which belongs to nobody else."""
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
        if applied is None:
            owner = Manager(manager.name, manager.operation, new["apiVersion"])
            applied = after_update({}, None, new, known.rules, owner, now)
        metadata["managedFields"] = write_managed_fields(applied)
        self.deletions.note_owners(known, new, None)
        self._keep(known, new, None)
        return new

    def write(
        self,
        known: Known,
        before: KubeObject,
        new: KubeObject,
        subresource: str = "",
        field_manager: str = "",
        *,
        dry_run: bool = False,
        ownership: Any = None,
    ) -> KubeObject:
        """Put `new`, which belongs to nobody else, in place of `before`."""
        if subresource not in {"", "status"} or (subresource and not known.kind.has_status):
            raise NotFound("the server could not find the requested resource")
        new = combined(known, before, new, subresource)
        metadata, old = new["metadata"], before["metadata"]
        if not subresource:
            self._admit(known, new, before)
        elif known.schema is not None:
            _admit_custom(known, new, before)
        metadata["managedFields"] = old.get("managedFields", [])
        if ownership is None:
            if new == before:
                return before
            name = field_manager or DEFAULT_MANAGER
            ownership = after_update(
                read_managed_fields(metadata["managedFields"]),
                before,
                new,
                known.rules,
                Manager(name, "Update", new["apiVersion"], subresource),
                self._now(),
            )
        metadata["managedFields"] = write_managed_fields(ownership)
        if new == before:
            return before
        check_finalizers(known, new, before)
        if known.is_counted and not subresource and is_wanted_anew(known, new, before):
            metadata["generation"] = old.get("generation", 1) + 1
        if dry_run:
            return new
        self.deletions.note_owners(known, new, before)
        if "deletionTimestamp" in metadata and self.deletions.is_free(known, new):
            return self.deletions.remove(known, new, before)
        self._keep(known, new, before)
        return new

    def apply(
        self, known: Known, wanted: KubeObject, manager: Manager, *, force: bool
    ) -> KubeObject:
        """Set the fields that a manager applies, and take away those that it applies no more."""
        metadata, subresource = wanted["metadata"], manager.subresource
        name = metadata["name"]
        before = self.look_up(known, metadata.get("namespace", ""), name)
        version, uid = metadata.pop("resourceVersion", ""), metadata.pop("uid", "")
        wanted = applied_part(known, wanted, subresource)
        if before is None:
            if subresource or version or uid:
                raise _not_found(known, name)
            made = apply_fields(None, {}, wanted, known.rules, manager, self._now(), force=force)
            return self.create(known, made.object, manager, applied=made.ownership)
        check_preconditions(known, before, uid, version)
        live = copy_out(known, before)
        live["metadata"].pop("managedFields", None)
        made = apply_fields(
            live,
            read_managed_fields(before["metadata"].get("managedFields")),
            wanted,
            known.rules,
            manager,
            self._now(),
            force=force,
        )
        return self.write(
            known,
            before,
            made.object,
            subresource,
            manager.name,
            ownership=made.ownership,
        )

    def ensure_namespace(self, name: str) -> None:
        known = self.catalogue.at(NAMESPACES)
        if self.store.table(known.key).get("", name) is None:
            new = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            self.create(known, new, Manager(DEFAULT_MANAGER, "Update", ""))

    def _keep(self, known: Known, new: KubeObject, before: KubeObject | None) -> None:
        self.store.put(known.key, new, before)
        if known.kind.gvr == CUSTOM_RESOURCE_DEFINITIONS:
            self.catalogue.define(new)

    def _enter(self, known: Known, metadata: dict[str, Any]) -> str:
        """Say in which namespace a new object lands, and see that it is there."""
        if not known.kind.is_namespaced:
            return ""
        namespace: str = metadata.get("namespace") or self.default_namespace
        metadata["namespace"] = namespace
        there = self.store.table(_NAMESPACES_KEY).get("", namespace)
        if there is None:
            self.ensure_namespace(namespace)
        elif "deletionTimestamp" in there["metadata"]:
            name = metadata.get("name") or metadata.get("generateName", "")
            resource = known.kind.gvr.group_resource
            raise Forbidden(
                f'{resource} "{name}" is forbidden: unable to create new '
                f"content in namespace {namespace} because it is being terminated",
                resource=resource,
                name=name,
            )
        return namespace

    def _name(self, known: Known, metadata: dict[str, Any], namespace: str) -> None:
        """Give a new object a name that no other has."""
        table = self.store.table(known.key)
        resource = known.kind.gvr.group_resource
        name, prefix = metadata.get("name", ""), metadata.get("generateName", "")
        if not name and not prefix:
            why = "Required value: name or generateName is required"
            raise Invalid(
                f'{known.kind.group_kind} "" is invalid: metadata.name: {why}',
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

    def _admit(self, known: Known, new: KubeObject, before: KubeObject | None) -> None:
        if known.kind.gvr == CUSTOM_RESOURCE_DEFINITIONS:
            set_definition_defaults(new)
            admission.refuse(new, known.kind, complaints_about_definition(new))
        elif known.kind.is_builtin:
            admission.set_defaults(new, known.kind)
        elif known.schema is not None:
            _admit_custom(known, new, before)
        admission.check(new, before, known.kind)

    # Time

    def _grace(self, obj: KubeObject, asked: int | None) -> int:
        """Say how many seconds an object may live on. Only a pod that runs takes time."""
        if not self.runs_pods or obj["kind"] != "Pod" or obj["apiVersion"] != "v1":
            return 0
        spec, phase = obj["spec"], status_of(obj).get("phase")
        if not spec.get("nodeName") or phase in {"Succeeded", "Failed"}:
            return 0
        return int(spec.get("terminationGracePeriodSeconds", 30) if asked is None else asked)

    def _now(self) -> str:
        now = self._clock.now()
        second = int(now.timestamp())
        if self._second[0] != second:
            self._second = (second, timestamp(now))
        return self._second[1]

    def _later(self, seconds: int) -> str:
        return timestamp(self._clock.now() + timedelta(seconds=seconds))


def _admit_custom(known: Known, new: KubeObject, before: KubeObject | None) -> None:
    schema = known.schema or {}
    # What is shared with the object before was admitted with it, and may not be changed.
    shared = {key for key in new if before is not None and new[key] is before.get(key)}
    fresh = {key: value for key, value in new.items() if key not in shared}
    rest = _without(schema, shared)
    prune(fresh, rest, is_root=True)
    set_defaults(fresh, rest)
    for key in [key for key in new if key not in shared and key not in fresh]:
        del new[key]
    new.update(fresh)
    admission.refuse(new, known.kind, schema_problems(fresh, rest))
    if known.has_rules:
        # Few kinds have rules, and CEL takes time to load.
        from kanister_py.core.kube.crd_rules import broken_rules

        admission.refuse(new, known.kind, broken_rules(new, before, schema))


def _without(schema: Mapping[str, Any], keys: AbstractSet[str]) -> Mapping[str, Any]:
    """Give a schema that says nothing of some fields of an object."""
    if not keys:
        return schema
    properties = schema.get("properties") or {}
    return {
        **schema,
        "properties": {key: each for key, each in properties.items() if key not in keys},
        "required": [key for key in schema.get("required") or () if key not in keys],
    }


def _not_found(known: Known, name: str) -> NotFound:
    resource = known.kind.gvr.group_resource
    return NotFound(f'{resource} "{name}" not found', resource=resource, name=name)
