"""Dry run of a composition: one reconcile of an XR in a cluster with only the given objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kanister_py.core.compositions.definitions import Definition, machinery_of
from kanister_py.core.compositions.desired import (
    Composed,
    ComposedResource,
    DeletedResource,
    observed_resources,
    resource_refs,
)
from kanister_py.core.compositions.messages import Data
from kanister_py.core.compositions.model import Composition
from kanister_py.core.compositions.naming import COMPOSITE, uid_of_rendered
from kanister_py.core.compositions.pipeline import Observed, PipelineFatal, StepOutcome
from kanister_py.core.compositions.results import COMPOSE, Conditions, Event, events_of_outcome
from kanister_py.core.errors import KanisterError, UsageError
from kanister_py.core.kube.copies import copy_json, merged_maps
from kanister_py.core.kube.parts import (
    annotations_of,
    conditions_of,
    labels_of,
    metadata_of,
    spec_of,
    status_of,
)
from kanister_py.core.kube.resources import group_version_of
from kanister_py.core.kube.selectors import label_selector_of
from kanister_py.core.notices import Notice


class CompositionMismatch(UsageError, reason="CompositionMismatch"):
    """A composition does not fit the given composite resource."""


RENDER_TIME = "2024-01-01T00:00:00Z"
"""Timestamp of all conditions, so that the output of a rendering is always the same."""
RENDER_RESOURCE_VERSION = "999"
"""Resource version of the XR that functions see, the same as in Crossplane's render engine."""
_NOTHING: Data = {}


class Rendered(NamedTuple):
    """Result of a rendering. With an `error`, it has the results up to the error."""

    composite: Data
    resources: tuple[ComposedResource, ...] = ()
    deleted: tuple[DeletedResource, ...] = ()
    events: tuple[Event, ...] = ()
    context: Data = _NOTHING
    outcomes: tuple[StepOutcome, ...] = ()
    notices: tuple[Notice, ...] = ()
    error: KanisterError | None = None

    @property
    def is_fatal(self) -> bool:
        return isinstance(self.error, PipelineFatal)


def check_definition(xr: Mapping[str, Any], xrd: Definition) -> Mapping[str, Any] | None:
    """Return the schema of the XR's version, or refuse a definition of another kind."""
    spec = xrd.spec
    group, version = group_version_of(str(xr.get("apiVersion")))
    kind = spec.names.kind
    if (group, xr.get("kind")) != (spec.group, kind):
        raise CompositionMismatch(
            f"the definition is of {kind} in {spec.group}, "
            f"not of the XR's {xr.get('kind')} in {group}"
        )
    for defined in spec.versions:
        if defined.name == version:
            return defined.schema_.open_api_v3_schema
    versions = ", ".join(defined.name for defined in spec.versions)
    raise CompositionMismatch(
        f"the definition has no version {version} of {kind}; it has {versions}"
    )


def check_composition(xr: Mapping[str, Any], composition: Composition, *, legacy: bool) -> None:
    """Refuse a composition for another kind, or one that the XR's selector does not match.

    Like `crossplane render`, it accepts an XR whose `compositionRef` names another composition.
    """
    for key, ours, its in (
        ("apiVersion", composition.api_version, xr.get("apiVersion")),
        ("kind", composition.kind, xr.get("kind")),
    ):
        if ours != its:
            raise CompositionMismatch(
                f"composition's compositeTypeRef.{key} ({ours}) does not match XR's {key} ({its})"
            )
    machinery = machinery_of(xr, legacy=legacy)
    for requirement in label_selector_of(machinery.get("compositionSelector")).requirements:
        if not requirement.matches(composition.labels):
            label = composition.labels.get(requirement.key)
            why = "the composition has no such label" if label is None else f"it has {label}"
            raise CompositionMismatch(
                f"XR's compositionSelector requires the label {requirement}: {why}"
            )


def prepare_xr(
    xr: Data, composition: Composition, observed: Iterable[Data] = (), *, legacy: bool = False
) -> Data:
    """Return an XR as Crossplane's render engine sends it to functions.

    Adds a UID, a resource version, the label with the name, the condition Responsive, and
    references to the composition and to the observed composed resources. The engine selects no
    revision, so `compositionRevisionRef` is there only if the XR has one.
    """
    metadata = dict(metadata_of(xr))
    if not metadata.get("name"):
        raise CompositionMismatch("the XR has no name")
    if not metadata.get("uid"):
        metadata["uid"] = uid_of_rendered(xr)
    metadata["resourceVersion"] = RENDER_RESOURCE_VERSION
    labels = dict(labels_of(xr))
    labels.setdefault(COMPOSITE, metadata["name"])
    machinery = dict(machinery_of(xr, legacy=legacy))
    machinery["compositionRef"] = {"name": composition.name}
    is_namespaced = bool(metadata.get("namespace"))
    refs = resource_refs(_addressed(observed), is_namespaced=is_namespaced)
    if refs:
        machinery["resourceRefs"] = list(refs)
    spec = dict(spec_of(xr))
    spec = {**spec, **machinery} if legacy else {**spec, "crossplane": machinery}
    status = {**status_of(xr), "conditions": _listed(_conditions_of(xr))}
    return {**xr, "metadata": {**metadata, "labels": labels}, "spec": spec, "status": status}


def _addressed(objects: Iterable[Data]) -> list[Data]:
    """Return the objects that have a name. References to other objects are impossible."""
    return [obj for obj in objects if metadata_of(obj).get("name")]


def observed_for(xr: Data, objects: Iterable[Data]) -> Observed:
    """Return the observed state of an XR.

    Objects in other namespaces, or with another controller, are refused.
    """
    listed = list(objects)
    namespace = xr["metadata"].get("namespace")
    for obj in listed:
        metadata = metadata_of(obj)
        if namespace and metadata.get("namespace", namespace) != namespace:
            raise UsageError(
                f"observed {obj.get('kind')} {metadata.get('name')} is in namespace "
                f"{metadata['namespace']}, its XR in {namespace}",
                reason="ObservedResourceRefused",
            )
    return Observed(xr, observed_resources(xr, _addressed(listed), strict=True))


def with_newer_versions(objects: Iterable[Data]) -> list[Data]:
    """Return objects, and copies of EnvironmentConfigs with the newer API version.

    Clusters serve both versions with the same content. Functions require the newer one,
    while manifests may still have the older one. The copies come first, so that a manifest of
    the newer version overrides them.
    """
    listed = list(objects)
    older, newer = (f"apiextensions.crossplane.io/{version}" for version in ("v1alpha1", "v1beta1"))
    copies: list[Data] = [
        {**obj, "apiVersion": newer}
        for obj in listed
        if obj.get("kind") == "EnvironmentConfig" and obj.get("apiVersion") == older
    ]
    return copies + listed


def names_composition(xr: Mapping[str, Any], composition: Composition, *, legacy: bool) -> bool:
    """Return whether an XR has a `compositionRef` to this composition."""
    reference = machinery_of(xr, legacy=legacy).get("compositionRef")
    return isinstance(reference, dict) and reference.get("name") == composition.name


PAUSED = "crossplane.io/paused"
_PAUSED_MESSAGE = "Reconciliation (including deletion) is paused via the pause annotation"


def result_if_paused_or_deleted(xr: Data) -> Rendered | None:
    """Return the result for an XR that is paused or being deleted, or None for any other."""
    metadata = metadata_of(xr)
    is_paused = annotations_of(xr).get(PAUSED) == "true"
    if not is_paused and not metadata.get("deletionTimestamp"):
        return None
    conditions = _conditions_of(xr)
    events: tuple[Event, ...] = ()
    if is_paused:
        conditions.set("Synced", "False", "ReconcilePaused", _PAUSED_MESSAGE)
        events = (Event("Normal", "ReconciliationPaused", _PAUSED_MESSAGE),)
    else:
        conditions.set("Ready", "False", "Deleting")
        conditions.set("Synced", "True", "ReconcileSuccess")
    status = {**status_of(xr), "conditions": _listed(conditions)}
    return Rendered({**_identity(xr), "status": status}, events=events)


def _conditions_of(xr: Data) -> Conditions:
    conditions = Conditions(conditions_of(xr), RENDER_TIME, metadata_of(xr).get("generation") or 0)
    conditions.set("Responsive", "True", "WatchCircuitClosed")
    return conditions


def _listed(conditions: Conditions) -> list[Data]:
    return [{**condition, "lastTransitionTime": RENDER_TIME} for condition in conditions.as_list()]


def rendered(
    xr: Data, composition: Composition, composed: Composed, *, legacy: bool, was_selected: bool
) -> Rendered:
    """Build the result of a rendering: the XR with its conditions, its resources, and events."""
    events: list[Event] = []
    if was_selected:
        message = f"Successfully selected composition: {composition.name}"
        events.append(Event("Normal", "SelectComposition", message))
    conditions = _conditions_of(xr)
    conditions.set_custom(composed.conditions)
    deprecations = conditions.set_deprecations(composed.notices)
    events += [
        Event("Warning", deprecation.reason, deprecation.message) for deprecation in deprecations
    ]
    events += composed.events
    if composed.error is not None:
        message = f"cannot compose resources: {composed.error.message}"
        events.append(Event("Warning", COMPOSE, message))
        conditions.set_after_failure(message, composed.conditions)
    else:
        events += events_of_outcome((), composed.unready)
        conditions.set_outcome((), composed.unready, composed.composite_ready)
    refs = {"resourceRefs": list(composed.refs)}
    composite = {
        **_identity(xr),
        "spec": refs if legacy else {"crossplane": refs},
        "status": {**composed.status, "conditions": _listed(conditions)},
    }
    return Rendered(
        composite,
        composed.resources,
        composed.deleted,
        tuple(events),
        composed.context,
        composed.outcomes,
        (*composition.notices, *composed.notices),
        composed.error,
    )


def _identity(xr: Data) -> Data:
    metadata = {
        key: xr["metadata"][key] for key in ("name", "namespace") if xr["metadata"].get(key)
    }
    return {"apiVersion": xr["apiVersion"], "kind": xr["kind"], "metadata": metadata}


class OutputSections(NamedTuple):
    """Parts of a rendering that are printed."""

    results: bool = False
    context: bool = False
    full_xr: Data | None = None


def documents_of(result: Rendered, shown: OutputSections) -> list[Data]:
    """List the documents to print: the XR, its resources, and the selected sections."""
    composite = result.composite
    if shown.full_xr is not None:
        composite = copy_json(merged_maps(shown.full_xr, composite))
    documents = [composite, *(resource.object for resource in result.resources)]
    kind = {"apiVersion": "render.crossplane.io/v1beta1"}
    if shown.results:
        documents += [{**kind, "kind": "Result", **event.as_dict()} for event in result.events]
    if shown.context:
        documents.append({**kind, "kind": "Context", "fields": result.context})
    return documents
