"""Creation of ActionSets: new ones, follow-ups of an earlier ActionSet, and retries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from kanister_py.core.actionsets.partitions import partition_label_of
from kanister_py.core.actionsets.status import Status
from kanister_py.core.actionsets.steps import current_phase
from kanister_py.core.blueprints.model import Blueprint, ObjectReference
from kanister_py.core.blueprints.options import (
    check_options,
    declared_options,
    unused_option_messages,
)
from kanister_py.core.blueprints.reads import engine_of, reads_of_action
from kanister_py.core.errors import UsageError, did_you_mean
from kanister_py.core.kube.copies import copy_json
from kanister_py.core.kube.names import generate_name
from kanister_py.core.kube.parts import annotations_of, spec_of, status_of
from kanister_py.core.yaml.documents import nearest

API_VERSION: Final = "cr.kanister.io/v1alpha1"
SCHEDULE_LABEL: Final = "kanister-py.io/schedule"
"""Label of an ActionSet with the name of the Schedule that created it."""
PARENT: Final = "kanister-py.io/from"
"""Annotation with the name of the ActionSet whose artifacts this one uses."""
RETRY_OF: Final = "kanister-py.io/retry-of"
"""Annotation with the name of the ActionSet that this one retries."""
RETRY_FROM: Final = "kanister-py.io/retry-from"
"""Annotation with the phase at which a retry begins. Default: the first incomplete phase."""

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
_NO_OBJECTS: Final[Mapping[str, ObjectReference]] = MappingProxyType({})
# Fields that apply to one run, and are not copied to its retry.
_FIELDS_OF_ONE_RUN: Final = ("cancel", "suspend")
_COPIED_ANNOTATIONS: Final = (PARENT, "kanister-py.io/concurrency-key")


class Order(NamedTuple):
    """Request for an ActionSet. Fields that are not set come from the parent ActionSet, if any."""

    action: str = ""
    name: str = ""
    namespace: str = ""
    blueprint: str = ""
    objects: tuple[ObjectReference, ...] = ()
    options: Mapping[str, str] = _NOTHING
    profile: ObjectReference | None = None
    secrets: Mapping[str, ObjectReference] = _NO_OBJECTS
    config_maps: Mapping[str, ObjectReference] = _NO_OBJECTS
    labels: Mapping[str, str] = _NOTHING
    pod_labels: Mapping[str, str] = _NOTHING
    pod_annotations: Mapping[str, str] = _NOTHING
    preferred_version: str = ""
    execution_mode: str = ""


def new_actionset(
    order: Order, parent: Mapping[str, Any] | None, choose: Callable[[str], str]
) -> dict[str, Any]:
    """Build the requested ActionSet.

    Without a parent it has one action per object. With a parent, its actions are copied once per
    object, or once if the request has no objects. The copies have the artifacts that the parent
    produced, and fields of the request override theirs. `choose` picks a character for a
    generated name.
    """
    if parent is not None:
        metadata = parent["metadata"]
        state = status_of(parent).get("state") or "pending"
        if state != "complete":
            raise UsageError(
                f"ActionSet {metadata['namespace']}/{metadata['name']} is {state}; only a "
                "complete one has artifacts for another action",
                reason="ActionSetIncomplete",
            )
        bases = _actions_of(parent)
    else:
        bases = [{}]
        for value, noun, hint in (
            (order.action, "action", "name one with --action"),
            (order.blueprint, "Blueprint", "name one with --blueprint"),
            (
                order.objects,
                "object to act on",
                "name one, select some with --selector, or copy an ActionSet with --from",
            ),
        ):
            if not value:
                raise UsageError(f"No {noun} was given; {hint}", reason="ActionSetUnclear")
    actions = [
        _action_of(base, order, target) for base in bases for target in order.objects or (None,)
    ]
    words = [order.action, parent["metadata"]["name"] if parent is not None else ""]
    base_name = "-".join(word.lower() for word in words if word)
    data: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": "ActionSet",
        "metadata": {
            "name": order.name or generate_name(f"{base_name}-", choose),
            "namespace": order.namespace,
        },
        "spec": {"actions": actions},
    }
    labels = {**(partition_label_of(parent) if parent is not None else {}), **order.labels}
    if labels:
        data["metadata"]["labels"] = labels
    if parent is not None:
        data["metadata"]["annotations"] = {PARENT: parent["metadata"]["name"]}
    if order.execution_mode:
        data["spec"]["executionMode"] = order.execution_mode
    return data


def _actions_of(parent: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the actions of a parent with the artifacts that they produced."""
    actions: list[dict[str, Any]] = copy_json(spec_of(parent).get("actions") or [])
    statuses = status_of(parent).get("actions") or []
    for index, action in enumerate(actions):
        artifacts = statuses[index].get("artifacts") if index < len(statuses) else None
        action.pop("artifacts", None)
        if artifacts:
            action["artifacts"] = copy_json(artifacts)
    return actions


def _action_of(
    base: Mapping[str, Any], order: Order, target: ObjectReference | None
) -> dict[str, Any]:
    action = copy_json(base)
    own: dict[str, Any] = {
        "name": order.action,
        "blueprint": order.blueprint,
        "object": target.as_dict() if target is not None else None,
        "profile": order.profile.as_dict() if order.profile is not None else None,
        "preferredVersion": order.preferred_version,
    }
    action.update({key: value for key, value in own.items() if value})
    maps: dict[str, Mapping[str, Any]] = {
        "options": order.options,
        "secrets": {name: reference.as_dict() for name, reference in order.secrets.items()},
        "configMaps": {name: reference.as_dict() for name, reference in order.config_maps.items()},
        "podLabels": order.pod_labels,
        "podAnnotations": order.pod_annotations,
    }
    for key, value in maps.items():
        if value:
            action[key] = {**(action.get(key) or {}), **value}
    return dict(action)


def set_options(
    fields: dict[str, Any], blueprint: Blueprint, overrides: Mapping[str, str]
) -> list[str]:
    """Set the options of an action, and return warnings about `overrides` that nothing reads.

    Options of a parent that the action does not declare are left out. Raises OptionsInvalid for
    options that contradict the declarations.
    """
    actions, name = blueprint.actions, str(fields["name"])
    options = {**declared_options(actions[name], fields.pop("options", None) or {}), **overrides}
    check_options(actions, name, options)
    if options:
        fields["options"] = options
    engine = engine_of(blueprint).engine
    reads = [read.names for read in reads_of_action(actions[name], engine)]
    return [message for _name, message in unused_option_messages(actions, name, overrides, reads)]


def retry_of(
    actionset: Mapping[str, Any], name: str, from_phase: str, choose: Callable[[str], str]
) -> dict[str, Any]:
    """Build the ActionSet that retries an ended one.

    When it runs, it copies the results of the completed phases, and begins at the first incomplete
    phase. `from_phase` names an earlier phase to begin at.
    """
    metadata = actionset["metadata"]
    spec = {
        key: value
        for key, value in copy_json(spec_of(actionset)).items()
        if key not in _FIELDS_OF_ONE_RUN
    }
    annotations = {
        key: value for key, value in annotations_of(actionset).items() if key in _COPIED_ANNOTATIONS
    }
    annotations[RETRY_OF] = metadata["name"]
    if from_phase:
        annotations[RETRY_FROM] = from_phase
    new_metadata: dict[str, Any] = {
        "name": name or generate_name(f"{metadata['name']}-", choose),
        "namespace": metadata["namespace"],
        "annotations": annotations,
    }
    if metadata.get("labels"):
        new_metadata["labels"] = dict(metadata["labels"])
    return {"apiVersion": API_VERSION, "kind": "ActionSet", "metadata": new_metadata, "spec": spec}


def references_of(actionset: Mapping[str, Any]) -> Sequence[tuple[str, Mapping[str, Any]]]:
    """List the Profiles, Secrets and ConfigMaps of an ActionSet, without duplicates.

    An entry is a kind in words, such as `config map`, and a reference.
    """
    references: list[tuple[str, Mapping[str, Any]]] = []
    for action in actionset["spec"]["actions"]:
        if action.get("profile"):
            references.append(("profile", action["profile"]))
        references += [
            ("secret", reference) for reference in (action.get("secrets") or {}).values()
        ]
        references += [
            ("config map", reference) for reference in (action.get("configMaps") or {}).values()
        ]
    return [entry for at, entry in enumerate(references) if entry not in references[:at]]


def nothing_to_retry(run: str, from_phase: str, why: str) -> UsageError:
    """Build the error for a run that cannot be retried from the requested phase."""
    where = f" from phase {from_phase}" if from_phase else ""
    return UsageError(f"Run {run} cannot be retried{where}: {why}", reason="NothingToRetry")


def why_not_retried(status: Status, from_phase: str) -> str:
    """Explain why a run cannot be retried from a phase."""
    for action in status.actions:
        if from_phase in [phase.name for phase in action.phases]:
            at = current_phase(action) or 0
            return f"the earlier phase {action.phases[at].name} is not complete"
    names = [*dict.fromkeys(phase.name for action in status.actions for phase in action.phases)]
    known_names = f"the phases are {', '.join(names)}" if names else "there are no phases"
    hint = did_you_mean(nearest(from_phase, names))
    return f"no action has such a phase; {known_names}{hint}"
