"""ActionSets and Schedules beside their Blueprints: keys, actions, times, and versions.

Of a Schedule also the versions that end soon: nobody looks when it runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kanister_py.core.blueprints.analysis import missing_inputs
from kanister_py.core.blueprints.lint.arguments import POD_FIELD
from kanister_py.core.blueprints.lint.context import Context
from kanister_py.core.blueprints.lint.findings import Finding, Rule, Severity, Spot
from kanister_py.core.blueprints.lint.structure import check_form
from kanister_py.core.blueprints.lint.versions import FALLBACK, INVALID, REMOVED, check_version
from kanister_py.core.blueprints.model import Action, Blueprint, actions_of, why_without_actions
from kanister_py.core.errors import FunctionVersionRemoved, InvalidVersion, KanisterError
from kanister_py.core.kube.objects import Found
from kanister_py.core.kube.pod_shapes import misshapen_in
from kanister_py.core.registry.choose import Asked, asked_version, choose_version
from kanister_py.core.templates.facts import InvalidObjectReference, needs_of
from kanister_py.core.versions.semver import Version, parse_request
from kanister_py.core.yaml.documents import text_of_path

NOT_GIVEN = Rule(
    "blueprint-not-given",
    Severity.INFO,
    "An ActionSet prefers a version for an action of a Blueprint that is not among the inputs.",
    "What a preferredVersion means depends on the functions that the action calls. Give "
    "lint the file with the Blueprint too; until then nothing was judged.",
)
NOT_AN_ACTION_SET = Rule(
    "actionset-invalid",
    Severity.ERROR,
    "An ActionSet has something else where text, a list or a map belongs.",
    "An API server would refuse the object. The message says what belongs there.",
)
NO_ACTIONS = Rule(
    "actionset-without-actions",
    Severity.ERROR,
    "An ActionSet names no actions.",
    "It is complete at once and has done nothing, so a backup that never ran looks like one that "
    "went well. `kanister-py run` refuses it.",
)
NO_ACTION = Rule(
    "action-unknown",
    Severity.ERROR,
    "An ActionSet runs an action that its Blueprint does not have.",
    "Nothing of the ActionSet runs: it fails at once. The names of actions are exact, "
    "capitals included. Only Blueprints that lint was given are looked at.",
)
NOT_A_SCHEDULE = Rule(
    "schedule-invalid",
    Severity.ERROR,
    "A Schedule never comes, or has something else where text, a list or a map belongs.",
    "Nothing of such a Schedule runs. `kanister-py schedule next --cron LINE` says when a cron "
    "line comes; a time zone is one of the IANA database, such as Europe/Berlin.",
)
OUTLIVED = Rule(
    "schedule-outlived",
    Severity.WARNING,
    "A Schedule runs a version of a function that the next release removes.",
    "From the upgrade on each of its runs fails, in the night and unseen. Move the Blueprint to "
    "the replacement before: `kanister-py upgrade --write` does it.",
)
NO_DELETION = Rule(
    "schedule-without-delete",
    Severity.ERROR,
    "A Schedule says which backups stay, and its Blueprint has no action `delete`.",
    "What falls out of `keep` is deleted by the action `delete` of the Blueprint that made it, "
    "with the artifacts of the backup. Without one nothing can be deleted.",
)
UNKNOWN_OBJECT = Rule(
    "object-kind-unknown",
    Severity.ERROR,
    "An ActionSet acts on an object of a kind that is not known, and names no resource.",
    "Nothing of the ActionSet runs. Of other kinds than StatefulSet, Deployment, "
    "DeploymentConfig, PVC and Namespace the reference needs apiVersion and resource.",
)
INPUT_NOT_GIVEN = Rule(
    "input-not-given",
    Severity.WARNING,
    "An ActionSet lacks a Secret or ConfigMap that its action declares.",
    "`secretNames` and `configMapNames` of an action list what its templates read. An ActionSet "
    "gives these in `secrets` and `configMaps`; a phase that reads a missing one fails.",
)
RULES = (
    UNKNOWN_OBJECT,
    INPUT_NOT_GIVEN,
    NOT_GIVEN,
    NOT_AN_ACTION_SET,
    NO_ACTIONS,
    NO_ACTION,
    NOT_A_SCHEDULE,
    OUTLIVED,
    NO_DELETION,
)

SCHEDULES = "kanister-py.io"
"""The group of Schedules."""
_SCHEDULE = "Schedule"


def check_action_set(
    found: Found, blueprints: Mapping[str, Blueprint], context: Context
) -> Iterator[Finding]:
    """Hold an ActionSet against its own form, and against the Blueprints at hand."""
    form = check_form(found, "ActionSet", NOT_AN_ACTION_SET, context)
    yield from form
    yield from _unknown_objects(found)
    if found.value.get("kind") == "ActionSet":
        # What a Schedule makes ActionSets of is judged with the Schedule.
        why = why_without_actions(found.value)
        if why and not any(each.rule == NOT_AN_ACTION_SET.id for each in form):
            yield Spot(found, ()).finding(NO_ACTIONS, f"The ActionSet runs nothing: {why}")
    for index, given in actions_of(found):
        blueprint, name = blueprints.get(str(given.get("blueprint") or "")), given.get("name")
        yield from _wrong_override(found, index, given)
        if blueprint is None or not isinstance(name, str):
            continue
        if name in blueprint.actions:
            yield from _missing_inputs(found, index, given, blueprint.actions[name])
            continue
        spot = Spot(found, ("spec", "actions", index, "name"), name)
        known = [*blueprint.actions]
        meant = context.hints.did_you_mean(name, known) or f"; there are {', '.join(known)}"
        message = f"Blueprint {blueprint.name} has no action {name}{meant}"
        yield spot.finding(NO_ACTION, message)
    wrong = {each.path for each in form if each.rule == NOT_AN_ACTION_SET.id}
    for preference in preferences_of(found, blueprints):
        is_reported = text_of_path((*found.path, *preference.spot.path)) in wrong
        if not is_reported and (preference.action or preference.blueprint not in blueprints):
            yield from check_preference(preference, context)


def _unknown_objects(found: Found) -> Iterator[Finding]:
    """Find the objects of actions that are sure not to be found, as no resource is named."""
    for index, given in actions_of(found):
        reference = given.get("object")
        if not isinstance(reference, dict) or not isinstance(reference.get("kind", ""), str):
            continue
        try:
            needs_of(reference)
        except InvalidObjectReference as error:
            spot = Spot(found, ("spec", "actions", index, "object"), str(given.get("name") or ""))
            yield spot.finding(UNKNOWN_OBJECT, error.message)


def _missing_inputs(
    found: Found, index: int, given: Mapping[str, Any], action: Action
) -> Iterator[Finding]:
    """Find the Secrets and ConfigMaps that an action declares, and that it is not given."""
    name = str(given.get("name"))
    spot = Spot(found, ("spec", "actions", index), name)
    inputs = {field: given.get(field) or {} for field in ("secrets", "configMaps")}
    if not all(isinstance(names, Mapping) for names in inputs.values()):
        return  # reported with the form
    for field, message in missing_inputs(name, action, inputs):
        # Artifacts come from an earlier run, and are added to the ActionSet then.
        if field in inputs:
            where = spot.at(field) if inputs[field] else spot
            yield where.finding(INPUT_NOT_GIVEN, f"{message} in {field}")


def _wrong_override(found: Found, index: int, given: Mapping[str, Any]) -> Iterator[Finding]:
    """Find what no pod can take in the `podOverride` of an ActionSet."""
    spot = Spot(found, ("spec", "actions", index, "podOverride"), str(given.get("name") or ""))
    override = given.get("podOverride")
    for wrong in misshapen_in(override, "podOverride") if isinstance(override, Mapping) else ():
        yield spot.finding(NOT_AN_ACTION_SET if wrong.wanted else POD_FIELD, str(wrong))


class Preference(NamedTuple):
    """The version that one action of an ActionSet prefers, and the action that it reaches.

    `action` is None where the Blueprint is not at hand, or has no such action.
    """

    spot: Spot
    version: str
    blueprint: str
    action: Action | None


def preferences_of(found: Found, blueprints: Mapping[str, Blueprint]) -> Iterator[Preference]:
    """Find every preferredVersion of an ActionSet."""
    for index, given in actions_of(found):
        name, version = str(given.get("name") or ""), given.get("preferredVersion")
        if version is None or version == "":
            continue
        wanted = str(given.get("blueprint") or "")
        blueprint = blueprints.get(wanted)
        action = blueprint.actions.get(name) if blueprint else None
        path = ("spec", "actions", index, "preferredVersion")
        yield Preference(Spot(found, path, name), str(version), wanted, action)


def check_preference(preference: Preference, context: Context) -> list[Finding]:
    """Say what a preferredVersion means for the phases that name no version themselves."""
    try:
        parse_request(preference.version)
    except InvalidVersion as error:
        return [preference.spot.finding(INVALID, str(error), version=preference.version)]
    if preference.action is None:
        message = (
            f"No Blueprint {preference.blueprint!r} with an action {preference.spot.action!r} "
            "among the inputs: nothing was judged"
        )
        return [preference.spot.finding(NOT_GIVEN, message, version=preference.version)]
    findings: list[Finding] = []
    is_known = False
    asked = Asked(preference.version, "preferredVersion")
    for _path, phase in preference.action.every_phase():
        if phase.func_version or not phase.func:
            continue
        spot = preference.spot._replace(phase=phase.name, function=phase.func)
        choice, found = check_version(spot, asked, context)
        # An unknown function is a fault of the Blueprint, found where that is linted.
        wrong = [_with_key(each) for each in found if not each.rule.startswith("function-")]
        findings += wrong
        is_known = is_known or (choice is not None and not wrong)
    if not is_known:
        return findings
    # One version for several functions: those that have none of that number fall back by design.
    return [
        each._replace(severity=Severity.INFO)
        if each.rule == FALLBACK.id and not context.is_strict
        else each
        for each in findings
    ]


def _with_key(finding: Finding) -> Finding:
    """Name the key that is there to change: the phase has no funcVersion."""
    if finding.rule != REMOVED.id or not finding.replacement:
        return finding
    message = (
        f"{finding.function} {finding.version} was removed in release {finding.removed_in}; "
        f"set preferredVersion to {finding.replacement}"
    )
    return finding._replace(message=message)


# Schedules


def is_schedule(found: Found) -> bool:
    return found.kind == _SCHEDULE and found.group == SCHEDULES


def template_of(found: Found) -> Found | None:
    """Give what a Schedule makes ActionSets of; it stands where an ActionSet would."""
    path = (*found.path, "spec", "template")
    node = found.document.node_at(path)
    if node is None or not isinstance(node.value, dict):
        return None
    return Found(found.document, path, "ActionSet", node.value)


def check_schedule(
    found: Found, blueprints: Mapping[str, Blueprint], context: Context
) -> Iterator[Finding]:
    """Hold a Schedule against its own form, and its template against the Blueprints at hand."""
    yield from check_form(found, _SCHEDULE, NOT_A_SCHEDULE, context)
    template = template_of(found)
    if template is None:
        return
    yield from check_action_set(template, blueprints, context)
    yield from _outlived(template, blueprints, context)
    spec = found.value.get("spec")
    if isinstance(spec, dict) and spec.get("keep"):
        names = [str(given.get("blueprint") or "") for _index, given in actions_of(template)]
        for name in dict.fromkeys(names):
            if name in blueprints and "delete" not in blueprints[name].actions:
                message = (
                    f"Blueprint {name} has no action delete: what falls out would stay for ever"
                )
                yield Spot(found, ("spec", "keep")).finding(NO_DELETION, message)


def _outlived(
    template: Found, blueprints: Mapping[str, Blueprint], context: Context
) -> Iterator[Finding]:
    for index, given in actions_of(template):
        blueprint = blueprints.get(str(given.get("blueprint") or ""))
        name, preferred = str(given.get("name") or ""), given.get("preferredVersion")
        action = blueprint.actions.get(name) if blueprint is not None else None
        if action is None:
            continue
        for _path, phase in action.every_phase():
            if not phase.func or phase.func not in context.registry:
                continue
            where = Spot(template, ("spec", "actions", index), name, phase.name, phase.func)
            asked = asked_version(phase.func_version, str(preferred) if preferred else None)
            upcoming = _next_release(phase.func, context)
            try:
                choose_version(context.registry, phase.func, asked, at={**context.at, **upcoming})
            except FunctionVersionRemoved as error:
                if error.removed_in not in [each.bare for each in upcoming.values()]:
                    continue
                hint = f"move to {error.replacement}" if error.replacement else "none replaces it"
                message = (
                    f"{error.function} {error.version} is removed in {error.removed_in}, the "
                    f"next release, and each run fails from then on; {hint}"
                )
                facts = {"replacement": error.replacement, "removed_in": error.removed_in}
                yield where.finding(OUTLIVED, message, version=error.version, **facts)
            except KanisterError:
                # What is wrong with it today is reported where the Blueprint is linted.
                continue


def _next_release(function: str, context: Context) -> dict[str, Version]:
    """Give the release that follows the installed one of the package that brings a function."""
    source = context.registry.family(function).candidates[0].source
    installed = context.at.get(source.name, source.release)
    later = [each.version for each in source.releases if each.version > installed]
    return {source.name: min(later)} if later else {}
