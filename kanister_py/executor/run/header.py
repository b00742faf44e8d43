"""Header of a run: the first entry of its journal, with which another process can resume it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from random import SystemRandom
from typing import Any, Final, NamedTuple
from uuid import uuid4

from pydantic.alias_generators import to_camel

from kanister_py.core.actionsets.course import Course, course_of, first_status
from kanister_py.core.actionsets.creation import nothing_to_retry, why_not_retried
from kanister_py.core.actionsets.model import ActionSpec, parse_actionset
from kanister_py.core.actionsets.outcomes import Outcome
from kanister_py.core.actionsets.references import parse_object_reference
from kanister_py.core.actionsets.status import Status, parse_status
from kanister_py.core.actionsets.transitions import record, status_for_retry
from kanister_py.core.blueprints.model import (
    LocatedBlueprint,
    ObjectReference,
    only_blueprint,
    why_no_actions,
)
from kanister_py.core.errors import UsageError, did_you_mean
from kanister_py.core.kube.names import generate_name
from kanister_py.core.kube.parts import metadata_of
from kanister_py.core.yaml.documents import nearest, parse_document, parse_documents


class Header(NamedTuple):
    """An ActionSet, its Blueprints, and its initial status if it retries an earlier run.

    A Blueprint that was read from a file has line numbers, which are not stored in the journal.
    """

    actionset: Mapping[str, Any]
    blueprints: Sequence[LocatedBlueprint | Mapping[str, Any]]
    status: Mapping[str, Any] | None = None

    @property
    def name(self) -> str:
        return str(self.actionset["metadata"]["name"])

    def as_dict(self) -> dict[str, Any]:
        data: dict[str, Any] = {
            "actionSet": self.actionset,
            "blueprints": [
                blueprint.manifest.value if isinstance(blueprint, LocatedBlueprint) else blueprint
                for blueprint in self.blueprints
            ],
        }
        return data if self.status is None else {**data, "status": self.status}

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Header:
        return cls(data["actionSet"], data["blueprints"], data.get("status"))


def located_blueprint(
    blueprint: LocatedBlueprint | Mapping[str, Any] | str | Path,
) -> LocatedBlueprint:
    """Load a Blueprint from a file or a mapping. A LocatedBlueprint is returned unchanged."""
    if isinstance(blueprint, LocatedBlueprint):
        return blueprint
    if isinstance(blueprint, Mapping):
        return only_blueprint(parse_documents(json.dumps(blueprint)), "the blueprint")
    path = Path(blueprint)
    return only_blueprint(parse_documents(path.read_bytes(), str(path)), str(path))


# Other fields of an action are parameters of `build_action`.
_OTHER_FIELDS: Final = [
    field
    for field in ActionSpec.model_fields
    if field not in ("name", "blueprint", "object", "options")
]
_FIELDS: Final = frozenset(map(to_camel, _OTHER_FIELDS))


def build_action(
    blueprint: LocatedBlueprint | Mapping[str, Any] | str | Path,
    action: str,
    target: str | Mapping[str, Any] | None,
    options: Mapping[str, str] | None,
    namespace: str,
    more: Mapping[str, Any],
) -> tuple[LocatedBlueprint, dict[str, Any]]:
    """Build an action of an ActionSet. The default target is the Namespace.

    `more` are further fields of the action, in Python's or in YAML's spelling.
    """
    for key in more:
        if to_camel(key) not in _FIELDS:
            suggestion = did_you_mean(nearest(key, [*_OTHER_FIELDS, "options"]))
            raise UsageError(f"An action of an ActionSet has no field {key}{suggestion}")
    located = located_blueprint(blueprint)
    if target is None:
        reference = ObjectReference(kind="Namespace", name=namespace, namespace=namespace).as_dict()
    elif isinstance(target, str):
        reference = parse_object_reference(target, namespace).as_dict()
    else:
        reference = dict(target)
    return located, {
        **{to_camel(key): value for key, value in more.items()},
        "name": action,
        "blueprint": located.blueprint.name,
        "object": reference,
        "options": dict(options) if options else None,
    }


def header_of_action(
    located: LocatedBlueprint, spec: Mapping[str, Any], name: str, namespace: str
) -> Header:
    """Build the header of an ActionSet with one action."""
    actionset = {
        "apiVersion": "cr.kanister.io/v1alpha1",
        "kind": "ActionSet",
        "metadata": {"name": name or new_name(spec["name"])},
        "spec": {"actions": [spec]},
    }
    return header_of_actionset(actionset, [located], "", namespace)


def header_of_actionset(
    actionset: Mapping[str, Any],
    blueprints: Sequence[LocatedBlueprint | Mapping[str, Any]],
    name: str,
    namespace: str,
) -> Header:
    """Build the header for a manifest. Missing metadata are generated."""
    stated = {key: value for key, value in metadata_of(actionset).items() if value}
    base = str(stated.get("generateName") or "actionset-")
    name = name or stated.get("name") or new_name(base.rstrip("-"))
    metadata = {"uid": str(uuid4()), "namespace": namespace, **stated, "name": name}
    _refuse_idle(name, actionset)
    return Header({**actionset, "metadata": metadata}, blueprints)


def _refuse_idle(name: str, actionset: Mapping[str, Any]) -> None:
    """Raise an error if the ActionSet would do nothing, or wait forever."""
    if why := why_no_actions(actionset):
        raise UsageError(f"ActionSet {name} runs nothing: {why}", reason="NothingToRun")
    if actionset["spec"].get("suspend") is True:
        raise UsageError(
            f"ActionSet {name} has spec.suspend: true, which would never end: a run follows "
            "the file it was started with; set spec.suspend to false, or create the ActionSet on "
            "a cluster, where the controller waits for that",
            reason="RunSuspended",
        )


def header_for_retry(
    header: Header, outcomes: Iterable[Outcome], from_phase: str, name: str
) -> Header:
    """Build the header of a run that retries another one, and keeps its results before a phase."""
    course, status = replay_outcomes(header, outcomes)
    began = status_for_retry(course.rules, status, first_status(course), from_phase)
    if began is None:
        raise nothing_to_retry(header.name, from_phase, why_not_retried(status, from_phase))
    metadata = {**header.actionset["metadata"], "name": name, "uid": str(uuid4())}
    return header._replace(
        actionset={**header.actionset, "metadata": metadata}, status=began.as_dict()
    )


def new_name(base: str) -> str:
    return generate_name(f"{base.lower()}-", SystemRandom().choice)


def replay_outcomes(header: Header, outcomes: Iterable[Outcome] = ()) -> tuple[Course, Status]:
    """Compute the status of a run from its recorded outcomes."""
    actionset = parse_actionset(parse_document(json.dumps(header.actionset)))
    blueprints = {}
    for blueprint in header.blueprints:
        located = located_blueprint(blueprint)
        blueprints[located.blueprint.name] = located.blueprint
    course = course_of(actionset, blueprints)
    status = parse_status(header.status) if header.status else first_status(course)
    for outcome in outcomes:
        status = record(course.rules, status, outcome)
    return course, status


def artifacts_of(header: Header, outcomes: Iterable[Outcome]) -> dict[str, Any]:
    """Return the artifacts of a run."""
    status = replay_outcomes(header, outcomes)[1]
    if status.state != "complete":
        raise UsageError(
            f"Run {header.name} is {status.state} and has no artifacts: "
            "only complete runs have artifacts",
            reason="NoArtifacts",
        )
    return status.output_artifacts
