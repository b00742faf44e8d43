"""Decisions of the admission webhook: reject an object, or store it with warnings.

Objects that cannot work are rejected; other problems become warnings. Changes that only affect
metadata and status are not checked, so that an invalid object can always be deleted or finished.
The exception are the labels that identify a revision: only the controller may change them.
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

_MAX_PROBLEMS: Final = 20
# API servers truncate longer warnings, and drop warnings beyond the total.
_MAX_WARNING_CHARACTERS: Final = 250
_MAX_TOTAL_CHARACTERS: Final = 3800

_PACKAGES: Final = ("Function", "FunctionRevision")
_IDENTITY: Final = (COMPOSITION_NAME_LABEL, COMPOSITION_HASH_LABEL, SPEC_HASH_LABEL, PACKAGE_LABEL)
_UNCHECKED_FIELDS: Final = frozenset({"metadata", "status"})


class Verdict(NamedTuple):
    """Decision about an object. It is rejected if there are `problems`; `warnings` are always
    returned.
    """

    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def is_allowed(self) -> bool:
        return not self.problems

    @property
    def message(self) -> str:
        shown = "; ".join(self.problems[:_MAX_PROBLEMS])
        more = len(self.problems) - _MAX_PROBLEMS
        return f"{shown}; and {more} more" if more > 0 else shown


ALLOWED: Final = Verdict()


def needs_no_check(old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> bool:
    """Return whether a change affects only metadata or status, or the object is being deleted."""
    if metadata_of(new).get("deletionTimestamp"):
        return True
    if old is None:
        return False
    return _checked_part(old) == _checked_part(new)


def _checked_part(obj: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in obj.items() if key not in _UNCHECKED_FIELDS}


def referenced_blueprints(actionset: Mapping[str, Any]) -> tuple[str, ...]:
    """List the names of the Blueprints that an ActionSet refers to."""
    names = [action.get("blueprint") for action in maps_in(actionset.get("spec"), "actions")]
    return tuple(dict.fromkeys(name for name in names if name and isinstance(name, str)))


def review_blueprint(blueprint: Mapping[str, Any], context: Context) -> Verdict:
    """Review a Blueprint. Errors that lint reports reject it; other findings are warnings."""
    return verdict_of(findings_in(blueprint, {}, context))


def review_actionset(
    actionset: Mapping[str, Any],
    blueprints: Mapping[str, Mapping[str, Any] | None],
    context: Context,
) -> Verdict:
    """Review an ActionSet. `blueprints` are the Blueprints that it refers to, None if missing.

    Problems of a Blueprint, or a missing Blueprint, are only warnings.
    """
    try:
        parse_actionset(parse_document(json.dumps(actionset)))
    except InvalidDocument as error:
        return Verdict(
            tuple(_with_place(problem.path, problem.message) for problem in error.problems)
        )
    existing = {name: obj for name, obj in blueprints.items() if obj is not None}
    verdict = verdict_of(findings_in(actionset, existing, context))
    warnings = [*verdict.warnings, *warnings_of_blueprints(actionset, blueprints, context)]
    return Verdict(verdict.problems, truncate_warnings(warnings))


def warnings_of_blueprints(
    actionset: Mapping[str, Any],
    blueprints: Mapping[str, Mapping[str, Any] | None],
    context: Context,
) -> Iterator[str]:
    """Yield warnings about missing Blueprints and actions, and about deprecated versions.

    Names that are not in `blueprints` were not looked up, so they are skipped.
    """
    for entry in spec_of(actionset).get("actions") or ():
        name, action = entry.get("blueprint") or "", entry.get("name") or ""
        blueprint = blueprints.get(name)
        if name not in blueprints:
            continue
        if blueprint is None:
            yield f"There is no Blueprint {name} yet: create it before the ActionSet runs"
            continue
        if action not in (blueprint.get("actions") or {}):
            yield f"Blueprint {name} has no action {action}: the ActionSet will fail"
            continue
        has_preferred_version = bool(entry.get("preferredVersion"))
        for finding in findings_in(blueprint, {}, context):
            is_its = finding.action == action and bool(finding.function)
            is_of_versions = bool(finding.deprecated_in or finding.removed_in)
            if is_its and is_of_versions and not has_preferred_version:
                yield f"Blueprint {name}, {_text_of(finding)}"


def findings_in(
    obj: Mapping[str, Any], blueprints: Mapping[str, Mapping[str, Any]], context: Context
) -> list[Finding]:
    """Lint an object together with its Blueprints. Returns only the findings in the object."""
    own = str(obj.get("kind"))
    sources = [Source(own, json.dumps(obj))]
    sources += [
        Source(f"Blueprint {name}", json.dumps(blueprint)) for name, blueprint in blueprints.items()
    ]
    return [
        finding
        for finding in lint_sources(sources, context).findings
        # Notes (INFO) are too noisy for an admission response.
        if finding.file == own and finding.severity is not Severity.INFO
    ]


def verdict_of(findings: list[Finding]) -> Verdict:
    """Reject for errors, except for two that Kanister accepts."""
    # `warnings_of_blueprints` reports missing actions.
    relevant = [finding for finding in findings if finding.rule != NO_ACTION.id]
    # An ActionSet without actions is valid and completes at once. Kanister stores an ActionSet
    # whose object cannot be found, and fails it with a reason.
    allowed = (NO_ACTIONS.id, UNKNOWN_OBJECT.id)
    return _verdict(
        relevant,
        lambda finding: finding.severity is Severity.ERROR and finding.rule not in allowed,
    )


def _verdict(findings: list[Finding], is_rejected: Callable[[Finding], bool]) -> Verdict:
    problems = [_text_of(finding) for finding in findings if is_rejected(finding)]
    warnings = [_text_of(finding) for finding in findings if not is_rejected(finding)]
    return Verdict(tuple(dict.fromkeys(problems)), truncate_warnings(warnings))


def _text_of(finding: Finding) -> str:
    place = "/".join(name for name in (finding.action, finding.phase) if name) or finding.path
    return f"{_with_place(place, ' '.join(finding.message.split()))} [{finding.rule}]"


def _with_place(place: str, message: str) -> str:
    return f"{place}: {message}" if place else message


def truncate_warnings(texts: list[str]) -> tuple[str, ...]:
    """Truncate warnings to the limits of API servers."""
    shown: list[str] = []
    size = 0
    for text in dict.fromkeys(texts):
        short = text
        if len(text) > _MAX_WARNING_CHARACTERS:
            short = f"{text[: _MAX_WARNING_CHARACTERS - 1]}…"
        size += len(short.encode())
        if size > _MAX_TOTAL_CHARACTERS:
            shown.append("There are more warnings: run kanister-py lint to see all")
            break
        shown.append(short)
    return tuple(shown)


# Compositions


def review_revision(old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> Verdict:
    """Review a change of a CompositionRevision: only `spec.revision` may change."""
    if old is None:
        return ALLOWED
    before, after = dict(spec_of(old)), dict(spec_of(new))
    before.pop("revision", None)
    after.pop("revision", None)
    changed = sorted(key for key in {*before, *after} if before.get(key) != after.get(key))
    return Verdict(
        tuple(
            f"spec.{key}: Must not change: a revision is a copy of a Composition; "
            "change the Composition instead"
            for key in changed
        )
    )


def identity_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[str, ...]:
    """List the fields that identify or order revisions and that a change modifies."""
    before, after = labels_of(old), labels_of(new)
    changed = [f"metadata.labels[{key}]" for key in _IDENTITY if before.get(key) != after.get(key)]
    if spec_of(old).get("revision") != spec_of(new).get("revision"):
        changed.append("spec.revision")
    return tuple(changed)


def review_identity(changed: Sequence[str], user: str, own_user: str) -> Verdict:
    """Review identity changes of a revision: only the controller may make them."""
    if not changed or user == own_user:
        return ALLOWED
    return Verdict(
        tuple(
            f"{path}: Must not be changed by {user or 'an anonymous user'}: the controller "
            f"({own_user}) manages it; to return to this revision, change the Composition or "
            "Function back"
            for path in changed
        )
    )


def referenced_functions(composition: Mapping[str, Any]) -> tuple[str, ...]:
    """List the names of the Functions that a Composition refers to."""
    steps = maps_in(spec_of(composition), "pipeline")
    references = [mapping_of(step.get("functionRef")) for step in steps]
    return tuple(
        dict.fromkeys(str(reference["name"]) for reference in references if reference.get("name"))
    )


def review_composition(
    composition: Mapping[str, Any], functions: Mapping[str, Mapping[str, Any]], context: Context
) -> Verdict:
    """Review the function versions that a Composition requests from the installed Functions.

    Removed and invalid versions reject it. All other findings are warnings: an unknown version,
    for example, may be released later.
    """
    findings = findings_in(composition, functions, context)
    return _verdict(findings, lambda finding: finding.rule in (REMOVED.id, INVALID.id))


def review_package(obj: Mapping[str, Any]) -> Verdict:
    """Review the revision limits of a Function or another Crossplane package."""
    spec = spec_of(obj)
    problems = problems_of_limits(
        _integer(spec.get("activeRevisionLimit")),
        _integer(spec.get("revisionHistoryLimit")),
        is_function=obj.get("kind") in _PACKAGES,
    )
    return Verdict(tuple(f"spec.{field}: {problem}" for field, problem in problems))


def _integer(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
