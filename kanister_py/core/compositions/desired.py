"""Composed resources of an XR: the objects to apply, and those to delete."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kanister_py.core.compositions.messages import Data
from kanister_py.core.compositions.naming import (
    CLAIM_NAME,
    CLAIM_NAMESPACE,
    COMPOSITE,
    RESOURCE_NAME,
    child_name,
    is_valid_name,
    resource_name_of,
)
from kanister_py.core.compositions.pipeline import (
    Observed,
    PipelineState,
    StepOutcome,
    error_source,
    is_inexact,
    notice_of_number,
    origin_of,
)
from kanister_py.core.compositions.results import CustomCondition, Event
from kanister_py.core.errors import KanisterError, UsageError
from kanister_py.core.kube.parts import (
    controller_of,
    controller_reference,
    labels_of,
    metadata_of,
    namespace_of,
    spec_of,
)
from kanister_py.core.kube.request_paths import problems_with
from kanister_py.core.kube.resources import group_version_of
from kanister_py.core.notices import Notice


class ComposedResourceRefused(UsageError, reason="ComposedResourceRefused"):
    """A desired composed resource cannot be applied to any cluster."""

    def __init__(self, message: str, *, resource: str, path: str, place: Sequence[str]) -> None:
        self.step, self.function, self.revision = (*place, "", "", "")[:3]
        at = f"desired.resources[{resource}].{path}"
        by = f"; it comes from pipeline step {self.step}" if self.step else ""
        super().__init__(message + by + error_source(self.function, self.revision, at))
        self.resource = resource
        self.path = at


_NOTHING: Data = {}
_OWNERS = "metadata.ownerReferences"


class ComposedResource(NamedTuple):
    """One desired object with its name, labels and owner reference."""

    name: str
    """Name of the resource within the XR, not the `metadata.name` of the object."""
    object: Data
    is_ready: bool = False


class DeletedResource(NamedTuple):
    """One observed object that is no longer desired."""

    name: str
    object: Data


class Composed(NamedTuple):
    """Result of a pipeline run. With an `error`, it has the results up to the error."""

    resources: tuple[ComposedResource, ...] = ()
    deleted: tuple[DeletedResource, ...] = ()
    refs: tuple[Data, ...] = ()
    status: Data = _NOTHING
    """Desired status of the XR, without conditions."""
    composite_ready: bool | None = None
    connection_details: Mapping[str, str] = {}
    context: Data = _NOTHING
    events: tuple[Event, ...] = ()
    conditions: tuple[CustomCondition, ...] = ()
    outcomes: tuple[StepOutcome, ...] = ()
    notices: tuple[Notice, ...] = ()
    ttl_seconds: float = 0.0
    requirements: Mapping[str, Data] = {}
    """Last requirements by step: objects to watch, and to fetch in advance next time."""
    error: KanisterError | None = None

    @property
    def unready(self) -> list[str]:
        return [resource.name for resource in self.resources if not resource.is_ready]


class ComposedRules(NamedTuple):
    """Rules for composed resources that depend on the XR's kind and on the cluster."""

    is_legacy: bool = False
    """Whether the XR has its Crossplane fields directly in `spec`."""
    is_namespaced: Callable[[str, str], bool] = lambda _api_version, _kind: True
    """Returns whether objects of an apiVersion and a kind are namespaced."""
    allows_duplicates: bool = False
    """Whether identical resources with the same identity only cause a notice, as in a dry run."""


def observed_resources(
    xr: Mapping[str, Any], objects: Iterable[Data], *, strict: bool = False
) -> dict[str, Data]:
    """Return the observed objects of an XR by their names within it.

    Objects with another controller are left out, or refused if `strict`.
    """
    uid = xr["metadata"].get("uid")
    by_name: dict[str, Data] = {}
    for obj in objects:
        title = f"{obj.get('kind')} {metadata_of(obj).get('name')}"
        owner = controller_of(obj)
        if owner is not None and owner.get("uid") != uid:
            if not strict:
                continue
            by = f"{owner.get('kind')} {owner.get('name')} (UID {owner.get('uid')})"
            raise _observed_refused(f"{title} is controlled by {by}, not by this XR")
        name = resource_name_of(obj)
        if not name:
            raise _observed_refused(
                f"{title} has no annotation {RESOURCE_NAME}: "
                "the annotation must name the composed resource"
            )
        if name in by_name:
            raise _observed_refused(
                f"{title} is annotated as composed resource {name}, "
                f"as {by_name[name].get('kind')} {by_name[name]['metadata'].get('name')} is"
            )
        by_name[name] = obj
    return by_name


def _observed_refused(why: str) -> UsageError:
    return UsageError(f"observed {why}", reason="ObservedResourceRefused")


def connection_secret_of(obj: Mapping[str, Any], namespace: str = "") -> tuple[str, str] | None:
    """Return namespace and name of the Secret with an object's connection details.

    The Secret of a namespaced object is always in the object's own namespace. `namespace`
    is the default for cluster-scoped objects whose reference has none.
    """
    reference = spec_of(obj).get("writeConnectionSecretToRef")
    if not isinstance(reference, Mapping) or not reference.get("name"):
        return None
    own = metadata_of(obj).get("namespace")
    return str(own or reference.get("namespace") or namespace), str(reference["name"])


def compose_state(observed: Observed, state: PipelineState, rules: ComposedRules) -> Composed:
    """Build the result of a pipeline from its last state. Errors become part of the result."""
    gathered = Composed(
        context=state.context.data,
        events=state.events,
        conditions=state.conditions,
        outcomes=state.outcomes,
        notices=state.notices,
        ttl_seconds=state.ttl_seconds,
        requirements=state.requirements,
        error=state.error,
    )
    if state.error is not None:
        return gathered
    builder = _ResourceBuilder(observed, state, rules)
    try:
        resources = builder.resources()
        deleted = tuple(_deleted(observed, {resource.name for resource in resources}))
    except KanisterError as error:
        return gathered._replace(error=error)
    composite = state.desired.data.get("composite")
    composite = composite if isinstance(composite, dict) else {}
    status = (composite.get("resource") or {}).get("status")
    status = builder.copy(status, "desired.composite.resource.status")
    status = {key: value for key, value in status.items() if key != "conditions"} if status else {}
    ready = {"READY_TRUE": True, "READY_FALSE": False}.get(composite.get("ready", ""))
    is_namespaced = bool(observed.composite["metadata"].get("namespace"))
    return gathered._replace(
        resources=resources,
        deleted=deleted,
        refs=resource_refs(
            (resource.object for resource in resources), is_namespaced=is_namespaced
        ),
        status=status,
        composite_ready=ready,
        connection_details=composite.get("connectionDetails") or {} if rules.is_legacy else {},
        events=(*builder.events, *state.events),
        notices=(*state.notices, *builder.notices, *map(notice_of_number, builder.inexact)),
    )


class _ResourceBuilder:
    """Builds the objects of the final desired state, and collects notices and events."""

    def __init__(self, observed: Observed, state: PipelineState, rules: ComposedRules) -> None:
        xr = observed.composite
        labels = labels_of(xr)
        self._observed = observed
        self._state = state
        self._rules = rules
        self._uid = str(xr["metadata"].get("uid") or "")
        self._namespace = namespace_of(xr)
        self._owner = controller_reference(xr)
        self._labels = {COMPOSITE: labels.get(COMPOSITE) or xr["metadata"]["name"]}
        for key in (CLAIM_NAME, CLAIM_NAMESPACE):
            if labels.get(key):
                self._labels[key] = labels[key]
        self.events: list[Event] = []
        self.notices: list[Notice] = []
        self.inexact: list[str] = []

    def resources(self) -> tuple[ComposedResource, ...]:
        desired = self._state.desired.data.get("resources") or {}
        composed = [self._resource(name, desired[name]) for name in sorted(desired)]
        by_identity: dict[tuple[str, ...], ComposedResource] = {}
        for resource in composed:
            obj, metadata = resource.object, resource.object["metadata"]
            group = group_version_of(obj["apiVersion"])[0]
            identity = (group, obj["kind"], metadata.get("namespace", ""), metadata["name"])
            other = by_identity.setdefault(identity, resource)
            if other is not resource:
                self._check_duplicates(other, resource)
        return tuple(composed)

    def _check_duplicates(self, one: ComposedResource, other: ComposedResource) -> None:
        """Raise for two resources that are the same object, or add a notice if that is allowed."""
        kind, name = other.object["kind"], other.object["metadata"]["name"]
        message = (
            f'composed resources "{one.name}" and "{other.name}" are the same object: '
            f"{kind} {name}; give them different names"
        )
        refusal = self._refusal(message, other.name, "metadata.name")
        if not (self._rules.allows_duplicates and _content(one.object) == _content(other.object)):
            raise refusal
        self._note("SameObject", refusal)

    def _note(self, reason: str, refusal: ComposedResourceRefused) -> None:
        """Add a notice for a problem that is an error only when resources are applied."""
        facts = {"step": refusal.step, "path": refusal.path}
        self.notices.append(Notice(reason, refusal.message, function=refusal.function, facts=facts))

    def _refusal(self, message: str, resource: str, path: str) -> ComposedResourceRefused:
        place = origin_of(resource, self._state)
        return ComposedResourceRefused(
            message, resource=resource, path=f"resource.{path}", place=place
        )

    def _cannot_apply(self, name: str, why: str, path: str) -> ComposedResourceRefused:
        return self._refusal(f'cannot apply composed resource "{name}": {why}', name, path)

    def _resource(self, name: str, desired: Any) -> ComposedResource:
        manifest = desired.get("resource") if isinstance(desired, dict) else None
        if not isinstance(manifest, dict):
            raise self._refusal(f'composed resource "{name}" is not an object', name, "")
        for key in ("apiVersion", "kind"):
            if not isinstance(manifest.get(key), str) or not manifest[key]:
                raise self._cannot_apply(name, f"no {key}", key)
            for _field, problem in problems_with({key: manifest[key]}):
                raise self._cannot_apply(name, problem, key)
        obj = self.copy(manifest, f"desired.resources[{name}].resource")
        metadata = self._metadata(obj, name)
        for field in ("annotations", "labels"):
            self._as_map(metadata, field, name)
            metadata[field] = self._texts(metadata[field], field, name)
        metadata["annotations"][RESOURCE_NAME] = name
        metadata["labels"].update(self._labels)
        self._own(metadata, name)
        before = self._observed.resources.get(name)
        if before is not None:
            kept = metadata_of(before)
            for key in ("namespace", "name", "generateName"):
                metadata.pop(key, None)
                if kept.get(key):
                    metadata[key] = kept[key]
        self._place(obj, metadata, name)
        if not metadata.get("name"):
            if not metadata.get("generateName"):
                metadata["generateName"] = f"{self._labels[COMPOSITE]}-"
            metadata["name"] = child_name(metadata["generateName"], self._uid, name)
        if not is_valid_name(str(metadata["name"]), obj["apiVersion"], obj["kind"]):
            raise self._refusal(
                f'cannot apply composed resource "{name}" because it has an invalid name '
                f'"{metadata["name"]}". Must be a valid RFC 1123 subdomain name.',
                name,
                "metadata.name",
            )
        return ComposedResource(name, obj, desired.get("ready") == "READY_TRUE")

    def _metadata(self, obj: Data, name: str) -> Data:
        self._as_map(obj, "metadata", name, "")
        metadata: Data = obj["metadata"]
        for key in ("name", "generateName", "namespace"):
            if metadata.get(key) is not None and not isinstance(metadata[key], str):
                raise self._cannot_apply(name, f"metadata.{key} is not a string", f"metadata.{key}")
        for field, problem in problems_with({"namespace": metadata.get("namespace")}):
            raise self._cannot_apply(name, problem, f"metadata.{field}")
        return metadata

    def _as_map(self, parent: Data, key: str, name: str, at: str = "metadata.") -> None:
        if parent.get(key) is None:
            parent[key] = {}
        if not isinstance(parent[key], dict):
            raise self._cannot_apply(name, f"{at}{key} is not a map", at + key)

    def _texts(self, texts: Data, field: str, name: str) -> Data:
        """Return annotations or labels. As in Crossplane, one wrong value drops them all."""
        for key, value in texts.items():
            if not isinstance(value, str | None):
                path = f"metadata.{field}[{key}]"
                message = (
                    f'{field} of composed resource "{name}" are left out: {key} is not a string'
                )
                self._note("NoText", self._refusal(message, name, path))
                return {}
        return {key: value or "" for key, value in texts.items()}

    def _own(self, metadata: Data, name: str) -> None:
        references = metadata.get("ownerReferences") or []
        if not isinstance(references, list):
            raise self._cannot_apply(name, "metadata.ownerReferences is not a list", _OWNERS)
        kept = []
        for reference in references:
            if isinstance(reference, dict) and reference.get("uid") == self._uid:
                continue
            if isinstance(reference, dict) and reference.get("controller"):
                other = f"{reference.get('kind')} {reference.get('name')}"
                raise self._cannot_apply(name, f"it is already controlled by {other}", _OWNERS)
            kept.append(reference)
        metadata["ownerReferences"] = [*kept, dict(self._owner)]

    def _place(self, obj: Data, metadata: Data, name: str) -> None:
        """Set the namespace of a resource to that of a namespaced XR."""
        if not self._namespace:
            return
        if not self._rules.is_namespaced(obj["apiVersion"], obj["kind"]):
            raise self._refusal(
                f'cannot apply cluster scoped composed resource "{name}" '
                f"(a {obj['kind']} named {metadata.get('name', '')}) for a namespaced composite "
                "resource.",
                name,
                "kind",
            )
        namespace = metadata.get("namespace")
        if namespace and namespace != self._namespace:
            message = (
                f'cannot create composed resource "{name}" in namespace "{namespace}", '
                f'using XR namespace "{self._namespace}" instead'
            )
            self.events.append(Event("Warning", "NamespaceOverridden", message))
        metadata["namespace"] = self._namespace

    def copy(self, value: Any, path: str) -> Any:
        """Copy data of a function. Floats without a fraction become ints.

        Ints that a double cannot represent are rounded, and their paths recorded in `inexact`.
        """
        kind = type(value)
        if kind is str or value is None or kind is bool:
            return value
        if kind is dict:
            return {
                key: part if type(part) is str else self.copy(part, f"{path}.{key}")
                for key, part in value.items()
            }
        if kind is list:
            return [self.copy(item, f"{path}[{index}]") for index, item in enumerate(value)]
        if kind is float:
            # Up to this limit, Go and API servers write whole doubles with all their digits.
            return int(value) if value.is_integer() and abs(value) < 1e21 else value
        if kind is int and is_inexact(value):
            self.inexact.append(path)
            return int(float(value))
        return value


def _content(obj: Mapping[str, Any]) -> Data:
    """Return an object without the annotation with its name within the XR."""
    metadata = obj["metadata"]
    kept = {key: value for key, value in metadata["annotations"].items() if key != RESOURCE_NAME}
    return {**obj, "metadata": {**metadata, "annotations": kept}}


def _deleted(observed: Observed, kept: set[str]) -> Iterable[DeletedResource]:
    """Yield the observed resources that are no longer desired, if the XR controls them.

    Resources without a controller are left alone. Raises UsageError for other controllers.
    """
    uid = observed.composite["metadata"].get("uid")
    for name in sorted(observed.resources):
        if name in kept:
            continue
        owner = controller_of(observed.resources[name])
        if owner is None:
            continue
        if owner.get("uid") != uid:
            raise UsageError(
                "cannot garbage collect composed resources that are no longer desired: refusing "
                f'to delete composed resource "{name}" that is controlled by '
                f'{owner.get("kind")} "{owner.get("name")}"',
                reason="DeletionRefused",
            )
        yield DeletedResource(name, observed.resources[name])


def resource_refs(objects: Iterable[Mapping[str, Any]], *, is_namespaced: bool) -> tuple[Data, ...]:
    """Build references to objects, sorted as in the spec of an XR."""
    refs = []
    for obj in objects:
        metadata = obj["metadata"]
        ref = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "name": metadata["name"]}
        if metadata.get("namespace") and not is_namespaced:
            ref["namespace"] = metadata["namespace"]
        refs.append(ref)
    return tuple(
        sorted(
            refs,
            key=lambda ref: "".join(
                ref.get(key, "") for key in ("apiVersion", "kind", "name", "namespace")
            ),
        )
    )
