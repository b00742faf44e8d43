"""Admission: whether an object may be stored, and warnings for its author.

Whatever makes an object useless is refused where its author still looks; everything else is
a warning that goes back with the answer. What was stored before is never held against a
change of something else: an object that is wrong must stay deletable and finishable.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kanister_py.core.actionsets.model import parse_actionset
from kanister_py.core.blueprints.lint.action_sets import NO_ACTION, NO_ACTIONS, UNKNOWN_OBJECT
from kanister_py.core.blueprints.lint.check import lint_sources
from kanister_py.core.blueprints.lint.context import Context
from kanister_py.core.blueprints.lint.findings import Finding, Severity
from kanister_py.core.blueprints.lint.reading import Source
from kanister_py.core.blueprints.lint.versions import INVALID, REMOVED
from kanister_py.core.errors import InvalidDocument
from kanister_py.core.kube.parts import labels_of, mapping_of, maps_in, metadata_of, spec_of
from kanister_py.core.revisions.activation import problems_of_limits
from kanister_py.core.revisions.identity import (
    COMPOSITION_HASH_LABEL,
    COMPOSITION_NAME_LABEL,
    PACKAGE_LABEL,
    SPEC_HASH_LABEL,
)
from kanister_py.core.yaml.documents import parse_document

_MOST_PROBLEMS: Final = 20
# An API server cuts warnings that are longer, and drops what is more in all.
_MOST_WARNING_CHARACTERS: Final = 250
_MOST_WARNINGS_CHARACTERS: Final = 3800

_PACKAGES: Final = ("Function", "FunctionRevision")
_IDENTITY: Final = (COMPOSITION_NAME_LABEL, COMPOSITION_HASH_LABEL, SPEC_HASH_LABEL, PACKAGE_LABEL)
_KEPT_OUT: Final = frozenset({"metadata", "status"})


class Verdict(NamedTuple):
    """Whether an object may be stored; `problems` say why not, `warnings` go back either way."""

    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def is_allowed(self) -> bool:
        return not self.problems

    @property
    def message(self) -> str:
        shown = "; ".join(self.problems[:_MOST_PROBLEMS])
        more = len(self.problems) - _MOST_PROBLEMS
        return f"{shown}; and {more} more" if more > 0 else shown


FINE: Final = Verdict()


def says_nothing_new(old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> bool:
    """Say whether a change touches nothing that is judged, or an object that is going."""
    if metadata_of(new).get("deletionTimestamp"):
        return True
    if old is None:
        return False
    return _judged_part(old) == _judged_part(new)


def _judged_part(obj: Mapping[str, Any]) -> dict[str, Any]:
    return {key: each for key, each in obj.items() if key not in _KEPT_OUT}


def blueprints_named(actionset: Mapping[str, Any]) -> tuple[str, ...]:
    """Name the Blueprints without which an ActionSet cannot be judged, as far as it can be read."""
    names = [each.get("blueprint") for each in maps_in(actionset.get("spec"), "actions")]
    return tuple(dict.fromkeys(name for name in names if name and isinstance(name, str)))


def judge_blueprint(blueprint: Mapping[str, Any], context: Context) -> Verdict:
    """Judge a Blueprint: what lint calls an error is refused."""
    return verdict_of(findings_in(blueprint, {}, context))


def judge_actionset(
    actionset: Mapping[str, Any],
    blueprints: Mapping[str, Mapping[str, Any] | None],
    context: Context,
) -> Verdict:
    """Judge an ActionSet beside the Blueprints it names; None stands for one that is not there.

    What is wrong with a Blueprint, or missing, is no fault of the ActionSet's: a warning.
    """
    try:
        parse_actionset(parse_document(json.dumps(actionset)))
    except InvalidDocument as error:
        return Verdict(tuple(_with_place(each.path, each.message) for each in error.problems))
    there = {name: each for name, each in blueprints.items() if each is not None}
    verdict = verdict_of(findings_in(actionset, there, context))
    warnings = [*verdict.warnings, *warnings_of_blueprints(actionset, blueprints, context)]
    return Verdict(verdict.problems, bounded(warnings))


def warnings_of_blueprints(
    actionset: Mapping[str, Any],
    blueprints: Mapping[str, Mapping[str, Any] | None],
    context: Context,
) -> Iterator[str]:
    for given in spec_of(actionset).get("actions") or ():
        name, action = given.get("blueprint") or "", given.get("name") or ""
        blueprint = blueprints.get(name)
        if name not in blueprints:
            continue
        if blueprint is None:
            yield f"There is no Blueprint {name} yet: the ActionSet fails unless it comes first"
            continue
        if action not in (blueprint.get("actions") or {}):
            yield f"Blueprint {name} has no action {action}: the ActionSet will fail"
            continue
        prefers = bool(given.get("preferredVersion"))
        for finding in findings_in(blueprint, {}, context):
            is_its = finding.action == action and bool(finding.function)
            is_of_versions = bool(finding.deprecated_in or finding.removed_in)
            if is_its and is_of_versions and not prefers:
                yield f"Blueprint {name}, {_text_of(finding)}"


def findings_in(
    obj: Mapping[str, Any], beside: Mapping[str, Mapping[str, Any]], context: Context
) -> list[Finding]:
    own = str(obj.get("kind"))
    sources = [Source(own, json.dumps(obj))]
    sources += [Source(f"Blueprint {name}", json.dumps(each)) for name, each in beside.items()]
    return [
        each
        for each in lint_sources(sources, context).findings
        # Mistakes and what is on its way out concern the author of a change; notes do not.
        if each.file == own and each.severity is not Severity.INFO
    ]


def verdict_of(findings: list[Finding]) -> Verdict:
    # An action that is not there is among the warnings about Blueprints.
    kept = [each for each in findings if each.rule != NO_ACTION.id]
    # One that names no actions is an ActionSet all the same, which completes at once; one
    # whose object cannot be found is stored by the original, and fails with its reason.
    allowed = (NO_ACTIONS.id, UNKNOWN_OBJECT.id)
    return _verdict(kept, lambda each: each.severity is Severity.ERROR and each.rule not in allowed)


def _verdict(findings: list[Finding], is_refused: Callable[[Finding], bool]) -> Verdict:
    problems = [_text_of(each) for each in findings if is_refused(each)]
    warnings = [_text_of(each) for each in findings if not is_refused(each)]
    return Verdict(tuple(dict.fromkeys(problems)), bounded(warnings))


def _text_of(finding: Finding) -> str:
    place = "/".join(each for each in (finding.action, finding.phase) if each) or finding.path
    return f"{_with_place(place, ' '.join(finding.message.split()))} [{finding.rule}]"


def _with_place(place: str, message: str) -> str:
    return f"{place}: {message}" if place else message


def bounded(texts: list[str]) -> tuple[str, ...]:
    """Cut warnings to what an API server hands on, and say so."""
    shown: list[str] = []
    size = 0
    for text in dict.fromkeys(texts):
        short = text
        if len(text) > _MOST_WARNING_CHARACTERS:
            short = f"{text[: _MOST_WARNING_CHARACTERS - 1]}…"
        size += len(short.encode())
        if size > _MOST_WARNINGS_CHARACTERS:
            shown.append("There is more to be said: kanister-py lint tells all of it")
            break
        shown.append(short)
    return tuple(shown)


# Compositions


def judge_revision(old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> Verdict:
    """Judge a change of a CompositionRevision: its number may rise, what it says is for ever."""
    if old is None:
        return FINE
    before, after = dict(spec_of(old)), dict(spec_of(new))
    before.pop("revision", None)
    after.pop("revision", None)
    changed = sorted(key for key in {*before, *after} if before.get(key) != after.get(key))
    return Verdict(
        tuple(
            f"spec.{key}: Must not change: a revision is what a Composition once was; "
            "change the Composition instead"
            for key in changed
        )
    )


def changes_of_identity(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[str, ...]:
    """Name what a change of a revision touches by which it is found, and which is newest."""
    before, after = labels_of(old), labels_of(new)
    changed = [f"metadata.labels[{key}]" for key in _IDENTITY if before.get(key) != after.get(key)]
    if spec_of(old).get("revision") != spec_of(new).get("revision"):
        changed.append("spec.revision")
    return tuple(changed)


def judge_identity(changed: Sequence[str], user: str, own_user: str) -> Verdict:
    """Judge who changes number and identity of a revision: the controller alone."""
    if not changed or user == own_user:
        return FINE
    return Verdict(
        tuple(
            f"{path}: Must not be changed by {user or 'a user without a name'}: the controller "
            f"({own_user}) alone does; to go back, say in the Composition or Function what it "
            "said then"
            for path in changed
        )
    )


def functions_named(composition: Mapping[str, Any]) -> tuple[str, ...]:
    """Name the Functions without which the versions of a Composition cannot be judged."""
    steps = maps_in(spec_of(composition), "pipeline")
    references = [mapping_of(each.get("functionRef")) for each in steps]
    return tuple(dict.fromkeys(str(each["name"]) for each in references if each.get("name")))


def judge_composition(
    composition: Mapping[str, Any], functions: Mapping[str, Mapping[str, Any]], context: Context
) -> Verdict:
    """Judge the versions that a Composition asks for, beside the Functions that are installed.

    One that can never be served is refused; what may still come is a warning.
    """
    findings = findings_in(composition, functions, context)
    return _verdict(findings, lambda each: each.rule in (REMOVED.id, INVALID.id))


def judge_package(obj: Mapping[str, Any]) -> Verdict:
    """Judge the limits of a Function or of another package."""
    spec = spec_of(obj)
    problems = problems_of_limits(
        _whole(spec.get("activeRevisionLimit")),
        _whole(spec.get("revisionHistoryLimit")),
        is_function=obj.get("kind") in _PACKAGES,
    )
    return Verdict(tuple(f"spec.{field}: {problem}" for field, problem in problems))


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
