"""ActionSets beside their Blueprints: their keys, their actions, and the versions they prefer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kanister_py.core.blueprints.lint.context import Context
from kanister_py.core.blueprints.lint.findings import Finding, Rule, Severity, Spot
from kanister_py.core.blueprints.lint.structure import check_form
from kanister_py.core.blueprints.lint.versions import FALLBACK, INVALID, REMOVED, check_version
from kanister_py.core.blueprints.model import Action, Blueprint, Found, actions_of
from kanister_py.core.errors import InvalidVersion
from kanister_py.core.objects.documents import text_of_path
from kanister_py.core.registry.choose import Asked
from kanister_py.core.versions.semver import parse_request
from kanister_py.values import NamedTuple

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
NO_ACTION = Rule(
    "action-unknown",
    Severity.ERROR,
    "An ActionSet runs an action that its Blueprint does not have.",
    "Nothing of the ActionSet runs: it fails at once. The names of actions are exact, "
    "capitals included. Only Blueprints that lint was given are looked at.",
)
RULES = (NOT_GIVEN, NOT_AN_ACTION_SET, NO_ACTION)


def check_action_set(
    found: Found, blueprints: Mapping[str, Blueprint], context: Context
) -> Iterator[Finding]:
    """Hold an ActionSet against its own form, and against the Blueprints at hand."""
    form = check_form(found, "ActionSet", NOT_AN_ACTION_SET, context)
    yield from form
    for index, given in actions_of(found):
        blueprint, name = blueprints.get(str(given.get("blueprint") or "")), given.get("name")
        if blueprint is None or not isinstance(name, str) or name in blueprint.actions:
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
