"""Creation of ActionSets: from an order, and from an earlier one that it follows or repeats."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from kanister_py.core.actionsets.partitions import partition_label_of
from kanister_py.core.actionsets.status import Status
from kanister_py.core.actionsets.steps import current_phase
from kanister_py.core.blueprints.model import ObjectReference
from kanister_py.core.errors import UsageError, did_you_mean
from kanister_py.core.kube.copies import copy_json
from kanister_py.core.kube.names import generate_name
from kanister_py.core.kube.parts import annotations_of, spec_of, status_of
from kanister_py.core.yaml.documents import nearest

API_VERSION: Final = "cr.kanister.io/v1alpha1"
SCHEDULE_LABEL: Final = "kanister-py.io/schedule"
"""Names, on an ActionSet that a schedule made, that schedule."""
PARENT: Final = "kanister-py.io/from"
"""Names, on an ActionSet that took over the artifacts of an earlier one, that one."""
RETRY_OF: Final = "kanister-py.io/retry-of"
"""Names, on an ActionSet that repeats an earlier one, that one."""
RETRY_FROM: Final = "kanister-py.io/retry-from"
"""Names, beside `retry-of`, the phase to begin with; without it, the first that is not complete."""

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
_NO_OBJECTS: Final[Mapping[str, ObjectReference]] = MappingProxyType({})
# What belongs to one life of an ActionSet, and not to the next.
_OF_ONE_LIFE: Final = ("cancel", "suspend")
_KEPT_NOTES: Final = (PARENT, "kanister-py.io/concurrency-key")


class Order(NamedTuple):
    """The wishes for an ActionSet; what is left out comes from the parent."""

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
    """Write the ActionSet that is asked for, one action for each object.

    A parent gives its actions, each with the artifacts it left; what is asked for wins.
    `choose` picks a letter of a generated name.
    """
    if parent is not None:
        metadata = parent["metadata"]
        state = status_of(parent).get("state") or "pending"
        if state != "complete":
            raise UsageError(
                f"ActionSet {metadata['namespace']}/{metadata['name']} is {state}; only one that "
                "is complete has artifacts to go on from",
                reason="ActionSetIncomplete",
            )
        bases = _actions_of(parent)
    else:
        bases = [{}]
        for given, what, remedy in (
            (order.action, "action", "name one with --action"),
            (order.blueprint, "Blueprint", "name one with --blueprint"),
            (
                order.objects,
                "object to act on",
                "name one, select some, or give a parent with --from",
            ),
        ):
            if not given:
                raise UsageError(
                    f"An ActionSet with no {what} does nothing; {remedy}", reason="ActionSetUnclear"
                )
    actions = [_action_of(base, order, each) for base in bases for each in order.objects or (None,)]
    words = [order.action, parent["metadata"]["name"] if parent is not None else ""]
    base_name = "-".join(each.lower() for each in words if each)
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
    """Give a parent's actions as they were asked for, with the artifacts they left."""
    given: list[dict[str, Any]] = copy_json(spec_of(parent).get("actions") or [])
    statuses = status_of(parent).get("actions") or []
    for index, action in enumerate(given):
        left = statuses[index].get("artifacts") if index < len(statuses) else None
        action.pop("artifacts", None)
        if left:
            action["artifacts"] = copy_json(left)
    return given


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
        "secrets": {name: each.as_dict() for name, each in order.secrets.items()},
        "configMaps": {name: each.as_dict() for name, each in order.config_maps.items()},
        "podLabels": order.pod_labels,
        "podAnnotations": order.pod_annotations,
    }
    for key, value in maps.items():
        if value:
            action[key] = {**(action.get(key) or {}), **value}
    return dict(action)


def retry_of(
    actionset: Mapping[str, Any], name: str, from_phase: str, choose: Callable[[str], str]
) -> dict[str, Any]:
    """Write the ActionSet that does again what another one failed to do.

    What that one completed is taken over by the run of this one; `from_phase` says
    where to begin instead.
    """
    metadata = actionset["metadata"]
    spec = {
        key: value
        for key, value in copy_json(spec_of(actionset)).items()
        if key not in _OF_ONE_LIFE
    }
    annotations = {
        key: value for key, value in annotations_of(actionset).items() if key in _KEPT_NOTES
    }
    annotations[RETRY_OF] = metadata["name"]
    if from_phase:
        annotations[RETRY_FROM] = from_phase
    made: dict[str, Any] = {
        "name": name or generate_name(f"{metadata['name']}-", choose),
        "namespace": metadata["namespace"],
        "annotations": annotations,
    }
    if metadata.get("labels"):
        made["labels"] = dict(metadata["labels"])
    return {"apiVersion": API_VERSION, "kind": "ActionSet", "metadata": made, "spec": spec}


def references_of(actionset: Mapping[str, Any]) -> Sequence[tuple[str, Mapping[str, Any]]]:
    """List what an ActionSet names beside its objects, each once: `(what it is, reference)`."""
    found: list[tuple[str, Mapping[str, Any]]] = []
    for action in actionset["spec"]["actions"]:
        if action.get("profile"):
            found.append(("profile", action["profile"]))
        found += [("secret", each) for each in (action.get("secrets") or {}).values()]
        found += [("config map", each) for each in (action.get("configMaps") or {}).values()]
    return [each for at, each in enumerate(found) if each not in found[:at]]


def nothing_to_retry(run: str, from_phase: str, why: str) -> UsageError:
    """Say why a run cannot be taken up at the phase that was asked for."""
    where = f" from phase {from_phase}" if from_phase else ""
    return UsageError(f"Run {run} cannot start over{where}: {why}", reason="NothingToRetry")


def why_not_retried(status: Status, from_phase: str) -> str:
    """Say what is missing for a run to be taken up at a phase."""
    for action in status.actions:
        if from_phase in [each.name for each in action.phases]:
            at = current_phase(action) or 0
            return f"phase {action.phases[at].name}, before it, is not complete"
    names = [*dict.fromkeys(each.name for action in status.actions for each in action.phases)]
    there_are = f"there are {', '.join(names)}" if names else "there are none"
    return f"no action has such a phase; {there_are}{did_you_mean(nearest(from_phase, names))}"
