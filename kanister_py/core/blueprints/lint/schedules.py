"""Schedules beside their Blueprints: their times, their actions, and versions that end soon."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kanister_py.core.blueprints.lint.action_sets import check_action_set
from kanister_py.core.blueprints.lint.context import Context
from kanister_py.core.blueprints.lint.findings import Finding, Rule, Severity, Spot
from kanister_py.core.blueprints.lint.structure import check_form
from kanister_py.core.blueprints.model import Blueprint, Found, actions_of
from kanister_py.core.errors import FunctionVersionRemoved, KanisterError
from kanister_py.core.registry.choose import asked_version, choose_version
from kanister_py.core.versions.semver import Version

GROUP = "kanister-py.io"
KIND = "Schedule"

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
RULES = (NOT_A_SCHEDULE, OUTLIVED, NO_DELETION)


def is_schedule(found: Found) -> bool:
    return found.kind == KIND and found.group == GROUP


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
    yield from check_form(found, KIND, NOT_A_SCHEDULE, context)
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
                way_out = (
                    f"move to {error.replacement}" if error.replacement else "none replaces it"
                )
                message = (
                    f"{error.function} {error.version} is removed in {error.removed_in}, the "
                    f"next release, and each run fails from then on; {way_out}"
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
