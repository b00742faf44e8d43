"""Lint rules for ActionSets and Schedules: keys, actions, times and versions.

Schedules also get a warning for versions that the next release removes, because their runs
are unattended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kanister_py.core.blueprints.analysis import missing_inputs
from kanister_py.core.blueprints.lint.arguments import POD_FIELD
from kanister_py.core.blueprints.lint.context import Context
from kanister_py.core.blueprints.lint.findings import Finding, Rule, Severity, Spot
from kanister_py.core.blueprints.lint.structure import schema_findings
from kanister_py.core.blueprints.lint.versions import FALLBACK, INVALID, REMOVED, check_version
from kanister_py.core.blueprints.model import Action, Blueprint, actions_of, why_no_actions
from kanister_py.core.blueprints.options import option_problems, unused_option_messages
from kanister_py.core.blueprints.reads import engine_of, reads_of
from kanister_py.core.blueprints.texts import texts_of
from kanister_py.core.errors import FunctionVersionRemoved, InvalidVersion, KanisterError
from kanister_py.core.kube.objects import LocatedObject
from kanister_py.core.kube.pod_shapes import shape_problems
from kanister_py.core.models import without_nulls
from kanister_py.core.registry.choose import RequestedVersion, choose_version, requested_version
from kanister_py.core.templates.engines import UnknownTemplateEngine
from kanister_py.core.templates.errors import TemplateError
from kanister_py.core.templates.facts import InvalidObjectReference, needs_of
from kanister_py.core.versions.semver import Version, parse_request
from kanister_py.core.yaml.documents import text_of_path

NOT_GIVEN = Rule(
    "blueprint-not-given",
    Severity.INFO,
    "An ActionSet prefers a version for an action of a Blueprint that lint was not given.",
    "What a preferredVersion means depends on the functions that the action calls. Give "
    "lint the file with the Blueprint too; until then the preferredVersion is not checked.",
)
NOT_AN_ACTION_SET = Rule(
    "actionset-invalid",
    Severity.ERROR,
    "An ActionSet has a value of the wrong type.",
    "An API server would refuse the object. The message names the expected type.",
)
NO_ACTIONS = Rule(
    "actionset-without-actions",
    Severity.ERROR,
    "An ActionSet names no actions.",
    "It completes at once without doing anything, so a backup that never ran looks like a "
    "successful one. `kanister-py run` refuses it.",
)
NO_ACTION = Rule(
    "action-unknown",
    Severity.ERROR,
    "An ActionSet runs an action that its Blueprint does not have.",
    "The ActionSet fails at once and nothing runs. Names of actions are exact, including "
    "capitals. Only Blueprints that lint was given are searched.",
)
NOT_A_SCHEDULE = Rule(
    "schedule-invalid",
    Severity.ERROR,
    "A Schedule never fires, or has a value of the wrong type.",
    "Nothing runs. `kanister-py schedule next --cron LINE` lists the times of a cron line. A "
    "time zone is a name of the IANA database, such as Europe/Berlin.",
)
OUTLIVED = Rule(
    "schedule-outlived",
    Severity.WARNING,
    "A Schedule runs a version of a function that the next release removes.",
    "After the upgrade every run fails, perhaps unnoticed. Move the Blueprint to the "
    "replacement before the upgrade: `kanister-py upgrade --write` does it.",
)
NO_DELETION = Rule(
    "schedule-without-delete",
    Severity.ERROR,
    "A Schedule has a retention policy, but its Blueprint has no action `delete`.",
    "A backup that `keep` does not retain is deleted by the action `delete` of its Blueprint, "
    "which gets the artifacts of the backup. Without that action nothing is deleted.",
)
UNKNOWN_OBJECT = Rule(
    "object-kind-unknown",
    Severity.ERROR,
    "An ActionSet acts on an object of an unknown kind and names no resource.",
    "The ActionSet fails at once. For kinds other than StatefulSet, Deployment, "
    "DeploymentConfig, PVC and Namespace, the reference needs apiVersion and resource.",
)
INPUT_NOT_GIVEN = Rule(
    "input-not-given",
    Severity.WARNING,
    "An ActionSet lacks a Secret or ConfigMap that its action declares.",
    "`secretNames` and `configMapNames` of an action list the objects that its templates read. "
    "An ActionSet gives them in `secrets` and `configMaps`; a phase without one fails.",
)
OPTION_INVALID = Rule(
    "option-invalid",
    Severity.ERROR,
    "An option of an ActionSet or Schedule contradicts the declarations of its action.",
    "The action declares its `options`: a required one is missing, or an option is unknown, of "
    "the wrong type or not in `enum`. The run is refused before its first phase.",
)
OPTION_UNUSED = Rule(
    "option-unused",
    Severity.WARNING,
    "An ActionSet or Schedule sets an option that no template of its action reads.",
    "The option has no effect. Its name is usually misspelt.",
)
RULES = (
    UNKNOWN_OBJECT,
    INPUT_NOT_GIVEN,
    OPTION_INVALID,
    OPTION_UNUSED,
    NOT_GIVEN,
    NOT_AN_ACTION_SET,
    NO_ACTIONS,
    NO_ACTION,
    NOT_A_SCHEDULE,
    OUTLIVED,
    NO_DELETION,
)

SCHEDULES = "kanister-py.io"
"""API group of Schedules."""
_SCHEDULE = "Schedule"


def check_action_set(
    manifest: LocatedObject, blueprints: Mapping[str, Blueprint], context: Context
) -> Iterator[Finding]:
    """Check an ActionSet against its schema and the given Blueprints."""
    form = schema_findings(manifest, "ActionSet", NOT_AN_ACTION_SET, context)
    yield from form
    yield from _unknown_objects(manifest)
    if manifest.value.get("kind") == "ActionSet":
        # The template of a Schedule is checked with the Schedule.
        why = why_no_actions(manifest.value)
        if why and not any(finding.rule == NOT_AN_ACTION_SET.id for finding in form):
            yield Spot(manifest, ()).finding(NO_ACTIONS, f"The ActionSet runs nothing: {why}")
    for index, entry in actions_of(manifest):
        blueprint, name = blueprints.get(str(entry.get("blueprint") or "")), entry.get("name")
        yield from _wrong_override(manifest, index, entry)
        if blueprint is None or not isinstance(name, str):
            continue
        if name in blueprint.actions:
            yield from _missing_inputs(manifest, index, entry, blueprint.actions[name])
            yield from _wrong_options(manifest, index, entry, blueprint)
            continue
        spot = Spot(manifest, ("spec", "actions", index, "name"), name)
        names = [*blueprint.actions]
        hint = context.hints.did_you_mean(name, names) or f"; its actions are {', '.join(names)}"
        message = f"Blueprint {blueprint.name} has no action {name}{hint}"
        yield spot.finding(NO_ACTION, message)
    wrong = {finding.path for finding in form if finding.rule == NOT_AN_ACTION_SET.id}
    for preference in preferences_of(manifest, blueprints):
        is_reported = text_of_path((*manifest.path, *preference.spot.path)) in wrong
        if not is_reported and (preference.action or preference.blueprint not in blueprints):
            yield from check_preference(preference, context)


def _unknown_objects(manifest: LocatedObject) -> Iterator[Finding]:
    """Find objects of unknown kinds whose references name no resource."""
    for index, entry in actions_of(manifest):
        reference = entry.get("object")
        if not isinstance(reference, dict) or not isinstance(reference.get("kind", ""), str):
            continue
        try:
            needs_of(reference)
        except InvalidObjectReference as error:
            spot = Spot(
                manifest, ("spec", "actions", index, "object"), str(entry.get("name") or "")
            )
            yield spot.finding(UNKNOWN_OBJECT, error.message)


def _missing_inputs(
    manifest: LocatedObject, index: int, entry: Mapping[str, Any], action: Action
) -> Iterator[Finding]:
    """Find declared Secrets and ConfigMaps that the ActionSet lacks."""
    name = str(entry.get("name"))
    spot = Spot(manifest, ("spec", "actions", index), name)
    inputs = {field: entry.get(field) or {} for field in ("secrets", "configMaps")}
    if not all(isinstance(names, Mapping) for names in inputs.values()):
        return  # reported with the schema
    for field, message in missing_inputs(name, action, inputs):
        # Artifacts come from an earlier run; they are added when that has completed.
        if field in inputs:
            where = spot.at(field) if inputs[field] else spot
            yield where.finding(INPUT_NOT_GIVEN, f"{message} in {field}")


def _wrong_options(
    manifest: LocatedObject, index: int, entry: Mapping[str, Any], blueprint: Blueprint
) -> Iterator[Finding]:
    """Find options that contradict the declarations of the action, or that nothing reads."""
    name, values = str(entry.get("name")), without_nulls(entry.get("options") or {})
    if not isinstance(values, Mapping) or not all(
        isinstance(text, str) for text in values.values()
    ):
        return  # reported with the schema
    spot = Spot(manifest, ("spec", "actions", index), name)
    for problem in option_problems(blueprint.actions, name, values):
        path = ("options", problem.option) if not problem.is_missing else ("options",)
        where = spot.at(*path) if values else spot
        yield where.finding(OPTION_INVALID, problem.message)
    reads = _names_read(blueprint, name) if values else None
    if reads is not None:
        for option, message in unused_option_messages(blueprint.actions, name, values, reads):
            yield spot.at("options", option).finding(OPTION_UNUSED, message)


def _names_read(blueprint: Blueprint, name: str) -> list[tuple[str, ...]] | None:
    """List the values that the templates of an action read; None if one cannot be parsed."""
    try:
        engine = engine_of(blueprint).engine
        texts = texts_of(blueprint.actions[name])
        return [read.names for text in texts for read in reads_of(text.text, engine)]
    except (TemplateError, UnknownTemplateEngine):
        return None


def _wrong_override(
    manifest: LocatedObject, index: int, entry: Mapping[str, Any]
) -> Iterator[Finding]:
    """Find fields in the `podOverride` of an ActionSet that a pod cannot have."""
    spot = Spot(manifest, ("spec", "actions", index, "podOverride"), str(entry.get("name") or ""))
    override = entry.get("podOverride")
    for wrong in shape_problems(override, "podOverride") if isinstance(override, Mapping) else ():
        yield spot.finding(NOT_AN_ACTION_SET if wrong.expected_type else POD_FIELD, str(wrong))


class Preference(NamedTuple):
    """preferredVersion of one action of an ActionSet, with the action that it applies to.

    `action` is None if lint was not given the Blueprint, or the Blueprint has no such action.
    """

    spot: Spot
    version: str
    blueprint: str
    action: Action | None


def preferences_of(
    manifest: LocatedObject, blueprints: Mapping[str, Blueprint]
) -> Iterator[Preference]:
    """Yield every preferredVersion of an ActionSet."""
    for index, entry in actions_of(manifest):
        name, version = str(entry.get("name") or ""), entry.get("preferredVersion")
        if version is None or version == "":
            continue
        blueprint_name = str(entry.get("blueprint") or "")
        blueprint = blueprints.get(blueprint_name)
        action = blueprint.actions.get(name) if blueprint else None
        path = ("spec", "actions", index, "preferredVersion")
        yield Preference(Spot(manifest, path, name), str(version), blueprint_name, action)


def check_preference(preference: Preference, context: Context) -> list[Finding]:
    """Check a preferredVersion against the phases that have no version of their own."""
    try:
        parse_request(preference.version)
    except InvalidVersion as error:
        return [preference.spot.finding(INVALID, str(error), version=preference.version)]
    if preference.action is None:
        message = (
            f"No Blueprint {preference.blueprint!r} with an action {preference.spot.action!r} "
            "was given to lint: the version was not checked"
        )
        return [preference.spot.finding(NOT_GIVEN, message, version=preference.version)]
    findings: list[Finding] = []
    is_available = False
    requested = RequestedVersion(preference.version, "preferredVersion")
    for _path, phase in preference.action.every_phase():
        if phase.func_version or not phase.func:
            continue
        spot = preference.spot._replace(phase=phase.name, function=phase.func)
        choice, findings_of_phase = check_version(spot, requested, context)
        # An unknown function is an error of the Blueprint and reported there.
        wrong = [
            _with_key(finding)
            for finding in findings_of_phase
            if not finding.rule.startswith("function-")
        ]
        findings += wrong
        is_available = is_available or (choice is not None and not wrong)
    if not is_available:
        return findings
    # One version for several functions: functions without that version fall back by design.
    return [
        finding._replace(severity=Severity.INFO)
        if finding.rule == FALLBACK.id and not context.is_strict
        else finding
        for finding in findings
    ]


def _with_key(finding: Finding) -> Finding:
    """Name preferredVersion in the message, because the phase has no funcVersion to change."""
    if finding.rule != REMOVED.id or not finding.replacement:
        return finding
    message = (
        f"{finding.function} {finding.version} was removed in release {finding.removed_in}; "
        f"set preferredVersion to {finding.replacement}"
    )
    return finding._replace(message=message)


# Schedules


def is_schedule(manifest: LocatedObject) -> bool:
    return manifest.kind == _SCHEDULE and manifest.group == SCHEDULES


def template_of(manifest: LocatedObject) -> LocatedObject | None:
    """Return the template of a Schedule in the place of an ActionSet, or None."""
    path = (*manifest.path, "spec", "template")
    node = manifest.document.node_at(path)
    if node is None or not isinstance(node.value, dict):
        return None
    return LocatedObject(manifest.document, path, "ActionSet", node.value)


def check_schedule(
    manifest: LocatedObject, blueprints: Mapping[str, Blueprint], context: Context
) -> Iterator[Finding]:
    """Check a Schedule against its schema, and its template against the given Blueprints."""
    yield from schema_findings(manifest, _SCHEDULE, NOT_A_SCHEDULE, context)
    template = template_of(manifest)
    if template is None:
        return
    yield from check_action_set(template, blueprints, context)
    yield from _outlived(template, blueprints, context)
    spec = manifest.value.get("spec")
    if isinstance(spec, dict) and spec.get("keep"):
        names = [str(entry.get("blueprint") or "") for _index, entry in actions_of(template)]
        for name in dict.fromkeys(names):
            if name in blueprints and "delete" not in blueprints[name].actions:
                message = (
                    f"Blueprint {name} has no action delete: expired backups would never be deleted"
                )
                yield Spot(manifest, ("spec", "keep")).finding(NO_DELETION, message)


def _outlived(
    template: LocatedObject, blueprints: Mapping[str, Blueprint], context: Context
) -> Iterator[Finding]:
    for index, entry in actions_of(template):
        blueprint = blueprints.get(str(entry.get("blueprint") or ""))
        name, preferred = str(entry.get("name") or ""), entry.get("preferredVersion")
        action = blueprint.actions.get(name) if blueprint is not None else None
        if action is None:
            continue
        for _path, phase in action.every_phase():
            if not phase.func or phase.func not in context.registry:
                continue
            where = Spot(template, ("spec", "actions", index), name, phase.name, phase.func)
            requested = requested_version(phase.func_version, str(preferred) if preferred else None)
            upcoming = _next_release(phase.func, context)
            try:
                choose_version(
                    context.registry, phase.func, requested, at={**context.at, **upcoming}
                )
            except FunctionVersionRemoved as error:
                if error.removed_in not in [release.bare for release in upcoming.values()]:
                    continue
                hint = (
                    f"move to {error.replacement}"
                    if error.replacement
                    else "no version replaces it"
                )
                message = (
                    f"{error.function} {error.version} is removed in {error.removed_in}, the "
                    f"next release, and every run fails from then on; {hint}"
                )
                facts = {"replacement": error.replacement, "removed_in": error.removed_in}
                yield where.finding(OUTLIVED, message, version=error.version, **facts)
            except KanisterError:
                # Errors that exist today are reported with the Blueprint.
                continue


def _next_release(function: str, context: Context) -> dict[str, Version]:
    """Return the release after the installed one, of the package that has the function."""
    source = context.registry.family(function).candidates[0].source
    installed = context.at.get(source.name, source.release)
    later = [release.version for release in source.releases if release.version > installed]
    return {source.name: min(later)} if later else {}
