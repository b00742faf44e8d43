"""Desired objects of an XR: what its final state stands for, and what must go."""

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
    """A desired state holds a resource that no cluster could take."""

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
    """One desired object, complete: named, labelled, owned."""

    name: str
    """Its name among the resources of the XR; the object has one of its own."""
    object: Data
    is_ready: bool = False


class DeletedResource(NamedTuple):
    """One observed object that is no longer desired."""

    name: str
    object: Data


class Composed(NamedTuple):
    """Result of a run of a pipeline. With an `error`, only what was gathered before it."""

    resources: tuple[ComposedResource, ...] = ()
    deleted: tuple[DeletedResource, ...] = ()
    refs: tuple[Data, ...] = ()
    status: Data = _NOTHING
    """The XR's status, as functions desire it; conditions are not in it."""
    composite_ready: bool | None = None
    connection_details: Mapping[str, str] = {}
    context: Data = _NOTHING
    events: tuple[Event, ...] = ()
    conditions: tuple[CustomCondition, ...] = ()
    outcomes: tuple[StepOutcome, ...] = ()
    notices: tuple[Notice, ...] = ()
    ttl_seconds: float = 0.0
    requirements: Mapping[str, Data] = {}
    """The last requirements of each step: to watch, and to fetch beforehand next time."""
    error: KanisterError | None = None

    @property
    def unready(self) -> list[str]:
        return [each.name for each in self.resources if not each.is_ready]


class ComposedRules(NamedTuple):
    """Rules that come from the surroundings of an XR."""

    is_legacy: bool = False
    """Whether the XR keeps its machinery directly in `spec`."""
    is_namespaced: Callable[[str, str], bool] = lambda _api_version, _kind: True
    """Whether the objects of an apiVersion and a kind live in namespaces."""
    allows_twins: bool = False
    """Whether resources that say the same may be one object: where nothing is applied."""


def observed_resources(
    xr: Mapping[str, Any], objects: Iterable[Data], *, strict: bool = False
) -> dict[str, Data]:
    """Sort the objects that an XR refers to by their names among its resources.

    What another owner controls counts as absent, or is refused if `strict`.
    """
    uid = xr["metadata"].get("uid")
    found: dict[str, Data] = {}
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
                "it does not say which composed resource it is"
            )
        if name in found:
            raise _observed_refused(
                f"{title} says that it is the composed resource {name}, "
                f"as {found[name].get('kind')} {found[name]['metadata'].get('name')} does"
            )
        found[name] = obj
    return found


def _observed_refused(why: str) -> UsageError:
    return UsageError(f"observed {why}", reason="ObservedResourceRefused")


def connection_secret_of(obj: Mapping[str, Any], namespace: str = "") -> tuple[str, str] | None:
    """Say which Secret an object writes its connection details to, as namespace and name.

    What stands in a namespace writes beside itself, whatever its reference says;
    `namespace` is that of what says nothing of either.
    """
    reference = spec_of(obj).get("writeConnectionSecretToRef")
    if not isinstance(reference, Mapping) or not reference.get("name"):
        return None
    own = metadata_of(obj).get("namespace")
    return str(own or reference.get("namespace") or namespace), str(reference["name"])


def compose_state(observed: Observed, state: PipelineState, rules: ComposedRules) -> Composed:
    """Decide what follows from the state after the last step."""
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
    making = _Making(observed, state, rules)
    try:
        resources = making.resources()
        deleted = tuple(_deleted(observed, {each.name for each in resources}))
    except KanisterError as error:
        return gathered._replace(error=error)
    composite = state.desired.data.get("composite")
    composite = composite if isinstance(composite, dict) else {}
    status = (composite.get("resource") or {}).get("status")
    status = making.copy(status, "desired.composite.resource.status")
    status = {key: each for key, each in status.items() if key != "conditions"} if status else {}
    ready = {"READY_TRUE": True, "READY_FALSE": False}.get(composite.get("ready", ""))
    is_namespaced = bool(observed.composite["metadata"].get("namespace"))
    return gathered._replace(
        resources=resources,
        deleted=deleted,
        refs=resource_refs((each.object for each in resources), is_namespaced=is_namespaced),
        status=status,
        composite_ready=ready,
        connection_details=composite.get("connectionDetails") or {} if rules.is_legacy else {},
        events=(*making.events, *state.events),
        notices=(*state.notices, *making.notices, *map(notice_of_number, making.inexact)),
    )


class _Making:
    """Maker of the objects of the final desired state, with notices and events about them."""

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
        made = [self._resource(name, desired[name]) for name in sorted(desired)]
        taken: dict[tuple[str, ...], ComposedResource] = {}
        for each in made:
            obj, metadata = each.object, each.object["metadata"]
            group = group_version_of(obj["apiVersion"])[0]
            identity = (group, obj["kind"], metadata.get("namespace", ""), metadata["name"])
            other = taken.setdefault(identity, each)
            if other is not each:
                self._check_twins(other, each)
        return tuple(made)

    def _check_twins(self, one: ComposedResource, other: ComposedResource) -> None:
        """Refuse two resources that would be one object, or only warn of them."""
        kind, name = other.object["kind"], other.object["metadata"]["name"]
        message = (
            f'composed resources "{one.name}" and "{other.name}" are one object: '
            f"{kind} {name}; give them different names"
        )
        refusal = self._refusal(message, other.name, "metadata.name")
        if not (self._rules.allows_twins and _content(one.object) == _content(other.object)):
            raise refusal
        self._note("SameObject", refusal)

    def _note(self, reason: str, refusal: ComposedResourceRefused) -> None:
        """Make a notice of what is refused where it would be applied."""
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
        given = desired.get("resource") if isinstance(desired, dict) else None
        if not isinstance(given, dict):
            raise self._refusal(f'composed resource "{name}" is no object', name, "")
        for key in ("apiVersion", "kind"):
            if not isinstance(given.get(key), str) or not given[key]:
                raise self._cannot_apply(name, f"no {key}", key)
            for _field, problem in problems_with({key: given[key]}):
                raise self._cannot_apply(name, problem, key)
        obj = self.copy(given, f"desired.resources[{name}].resource")
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
        found: Data = obj["metadata"]
        for key in ("name", "generateName", "namespace"):
            if found.get(key) is not None and not isinstance(found[key], str):
                raise self._cannot_apply(name, f"metadata.{key} is no text", f"metadata.{key}")
        for field, problem in problems_with({"namespace": found.get("namespace")}):
            raise self._cannot_apply(name, problem, f"metadata.{field}")
        return found

    def _as_map(self, parent: Data, key: str, name: str, at: str = "metadata.") -> None:
        if parent.get(key) is None:
            parent[key] = {}
        if not isinstance(parent[key], dict):
            raise self._cannot_apply(name, f"{at}{key} is no map", at + key)

    def _texts(self, given: Data, field: str, name: str) -> Data:
        """Give annotations or labels as the original takes them: all are texts, or none counts."""
        for key, value in given.items():
            if not isinstance(value, str | None):
                path = f"metadata.{field}[{key}]"
                message = f'{field} of composed resource "{name}" are left out: {key} is no text'
                self._note("NoText", self._refusal(message, name, path))
                return {}
        return {key: value or "" for key, value in given.items()}

    def _own(self, metadata: Data, name: str) -> None:
        references = metadata.get("ownerReferences") or []
        if not isinstance(references, list):
            raise self._cannot_apply(name, "metadata.ownerReferences is no list", _OWNERS)
        others = []
        for each in references:
            if isinstance(each, dict) and each.get("uid") == self._uid:
                continue
            if isinstance(each, dict) and each.get("controller"):
                other = f"{each.get('kind')} {each.get('name')}"
                raise self._cannot_apply(name, f"it is controlled by {other} already", _OWNERS)
            others.append(each)
        metadata["ownerReferences"] = [*others, dict(self._owner)]

    def _place(self, obj: Data, metadata: Data, name: str) -> None:
        """Put what a namespaced XR composes into its own namespace."""
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
        asked = metadata.get("namespace")
        if asked and asked != self._namespace:
            message = (
                f'cannot create composed resource "{name}" in namespace "{asked}", '
                f'using XR namespace "{self._namespace}" instead'
            )
            self.events.append(Event("Warning", "NamespaceOverridden", message))
        metadata["namespace"] = self._namespace

    def copy(self, value: Any, path: str) -> Any:
        """Copy what a function gave; whole numbers become ints, and inexact ones are noted."""
        kind = type(value)
        if kind is str or value is None or kind is bool:
            return value
        if kind is dict:
            return {
                key: each if type(each) is str else self.copy(each, f"{path}.{key}")
                for key, each in value.items()
            }
        if kind is list:
            return [self.copy(each, f"{path}[{index}]") for index, each in enumerate(value)]
        if kind is float:
            # Go writes whole doubles with all their digits up to here, and so does a cluster.
            return int(value) if value.is_integer() and abs(value) < 1e21 else value
        if kind is int and is_inexact(value):
            self.inexact.append(path)
            return int(float(value))
        return value


def _content(obj: Mapping[str, Any]) -> Data:
    """Give an object without the name that it has among the resources of its XR."""
    metadata = obj["metadata"]
    rest = {key: each for key, each in metadata["annotations"].items() if key != RESOURCE_NAME}
    return {**obj, "metadata": {**metadata, "annotations": rest}}


def _deleted(observed: Observed, kept: set[str]) -> Iterable[DeletedResource]:
    """Find what is observed and no longer desired; what has no controller is left alone."""
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
    """Write references to objects in the order in which an XR lists them."""
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
