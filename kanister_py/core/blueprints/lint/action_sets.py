"""Would the functions that an ActionSet's preferredVersion reaches still answer it?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kanister_py.core.blueprints.lint.context import Context
from kanister_py.core.blueprints.lint.findings import Finding, Severity, Spot
from kanister_py.core.blueprints.lint.versions import FALLBACK, INVALID, check_version
from kanister_py.core.blueprints.model import Action, Blueprint, Found
from kanister_py.core.errors import InvalidVersion
from kanister_py.core.registry.choose import Asked
from kanister_py.core.versions.semver import parse_request


class Preference(NamedTuple):
    """The version that one action of an ActionSet prefers, and the action that it reaches.

    `action` is None where the Blueprint is not at hand.
    """

    spot: Spot
    version: str
    action: Action | None


def preferences_of(found: Found, blueprints: Mapping[str, Blueprint]) -> Iterator[Preference]:
    """Find every preferredVersion of an ActionSet."""
    spec = found.value.get("spec")
    actions = spec.get("actions") if isinstance(spec, dict) else None
    for index, given in enumerate(actions if isinstance(actions, list) else ()):
        if not isinstance(given, dict):
            continue
        name, version = str(given.get("name") or ""), given.get("preferredVersion")
        if version is None or version == "":
            continue
        blueprint = blueprints.get(str(given.get("blueprint") or ""))
        action = blueprint.actions.get(name) if blueprint else None
        path = ("spec", "actions", index, "preferredVersion")
        yield Preference(Spot(found, path, name), _text(version), action)


def _text(version: Any) -> str:
    return version if isinstance(version, str) else str(version)


def check_preference(preference: Preference, context: Context) -> list[Finding]:
    """Say what a preferredVersion means for the phases that name no version themselves."""
    try:
        parse_request(preference.version)
    except InvalidVersion as error:
        said = str(error)
        return [preference.spot.finding(INVALID, said, version=preference.version)]
    if preference.action is None:
        return []
    findings: list[Finding] = []
    is_known = False
    asked = Asked(preference.version, "preferredVersion")
    for _path, phase in preference.action.every_phase():
        if phase.func_version or not phase.func:
            continue
        spot = preference.spot._replace(phase=phase.name, function=phase.func)
        choice, told = _checked(spot, asked, context)
        findings += told
        is_known = is_known or (choice and not told)
    if not is_known:
        return findings
    # One version for several functions: those that have none of that number fall back by design.
    return [
        each._replace(severity=Severity.INFO)
        if each.rule == FALLBACK.id and not context.is_strict
        else each
        for each in findings
    ]


def _checked(spot: Spot, asked: Asked, context: Context) -> tuple[bool, list[Finding]]:
    choice, findings = check_version(spot, asked, context)
    # An unknown function is the Blueprint's news, told where the Blueprint is linted.
    return choice is not None, [each for each in findings if not each.rule.startswith("function-")]
