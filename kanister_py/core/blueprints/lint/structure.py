"""Lint rules for the structure of Blueprints: keys, names and phases."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from kanister_py.core.blueprints.lint.context import Context
from kanister_py.core.blueprints.lint.findings import (
    Finding,
    Hints,
    Rule,
    Severity,
    Spot,
    finding_of,
)
from kanister_py.core.blueprints.model import GROUP_VERSION, Action, LocatedBlueprint
from kanister_py.core.kube.objects import LocatedObject
from kanister_py.core.models import UnknownKey

UNKNOWN_KEY = Rule(
    "unknown-key",
    Severity.WARNING,
    "A key that nothing reads.",
    "An API server drops unknown keys silently. They are usually misspelt (`retries` for "
    "`retry`), and have no effect.",
)
API_VERSION = Rule(
    "api-version",
    Severity.ERROR,
    "The apiVersion is not cr.kanister.io/v1alpha1.",
    "Without an apiVersion no API server accepts the object. No other version is supported by "
    "the installed CRDs.",
)
NO_NAME = Rule(
    "blueprint-without-name",
    Severity.WARNING,
    "A Blueprint has no metadata.name.",
    "It can be run from its file, but neither stored in a cluster nor named by an ActionSet.",
)
NO_ACTIONS = Rule(
    "blueprint-without-actions",
    Severity.ERROR,
    "A Blueprint has no actions.",
    "Nothing can run. The key is `actions`, a mapping of names to actions.",
)
NO_PHASES = Rule(
    "action-without-phases",
    Severity.WARNING,
    "An action has no phases.",
    "An ActionSet that runs it completes at once without doing anything.",
)
NO_FUNC = Rule(
    "phase-without-func",
    Severity.ERROR,
    "A phase names no function.",
    "Every phase calls one function, named in `func`.",
)
NO_PHASE_NAME = Rule(
    "phase-without-name",
    Severity.WARNING,
    "A phase has no name.",
    "Later phases cannot read its output, and status and events cannot distinguish it. A "
    "deferPhase needs no name.",
)
DUPLICATE = Rule(
    "duplicate-phase-name",
    Severity.ERROR,
    "Two phases of one action have the same name.",
    "Outputs and progress are stored by phase name, so one of the two is lost.",
)
DUPLICATE_ACROSS = Rule(
    "duplicate-phase-name-across-actions",
    Severity.INFO,
    "Phases of different actions have the same name.",
    "It works, here and in Kanister's controller, but Kanister's validating webhook and "
    "`kanctl validate` refuse the Blueprint.",
)
NOT_FETCHED = Rule(
    "object-not-fetched",
    Severity.WARNING,
    "A phase refers to an object that is neither a Secret nor a ConfigMap.",
    "Only Secrets and ConfigMaps are fetched for the templates of a phase, according to `kind`; "
    "all other references are ignored silently.",
)
OBJECT_UNNAMED = Rule(
    "object-without-name",
    Severity.ERROR,
    "A phase refers to a Secret or a ConfigMap without a name.",
    "No object can be fetched, so the phase fails before it does anything.",
)
RULES = (
    UNKNOWN_KEY,
    API_VERSION,
    NO_NAME,
    NO_ACTIONS,
    NO_PHASES,
    NO_FUNC,
    NO_PHASE_NAME,
    DUPLICATE,
    DUPLICATE_ACROSS,
    NOT_FETCHED,
    OBJECT_UNNAMED,
)


def check_structure(located: LocatedBlueprint, hints: Hints) -> Iterator[Finding]:
    """Check the structure of a Blueprint."""
    blueprint, spot = located.blueprint, Spot(located.manifest)
    version = blueprint.api_version
    if located.is_read("apiVersion") and version != GROUP_VERSION:
        actual = f"found {version!r}" if version else "it is missing"
        message = f"The apiVersion must be {GROUP_VERSION}; {actual}"
        yield spot.at("apiVersion").finding(API_VERSION, message)
    if not blueprint.name and located.is_read("metadata", "name"):
        yield spot.at("metadata").finding(NO_NAME, "The Blueprint has no metadata.name")
    yield from unknown_keys(located.manifest, located.unknown_keys, hints)
    if not blueprint.actions and located.is_read("actions"):
        yield spot.at("actions").finding(NO_ACTIONS, "The Blueprint has no actions")
    for name, action in blueprint.actions.items():
        yield from _action(located, Spot(located.manifest, ("actions", name), name), action, hints)
    yield from _duplicates_across(located)


def unknown_keys(
    manifest: LocatedObject, unknown: Iterable[UnknownKey], hints: Hints
) -> Iterator[Finding]:
    """Report keys that are ignored."""
    for path, keys in unknown:
        key = str(path[-1])
        hint = hints.did_you_mean(key, keys) or f"; expected one of {', '.join(keys)}"
        message = f"Nothing reads the key {key!r}{hint}"
        yield Spot(manifest, path).finding(UNKNOWN_KEY, message)


def schema_findings(
    manifest: LocatedObject, kind: str, rule: Rule, context: Context
) -> list[Finding]:
    """Check an object against the schema of its kind, if that is known."""
    check = context.schema_checks.get(kind)
    if check is None:
        return []
    unknown, problems = check(manifest)
    invalid = [finding_of(problem, rule) for problem in problems]
    return [*invalid, *unknown_keys(manifest, unknown, context.hints)]


def _action(
    located: LocatedBlueprint, spot: Spot, action: Action, hints: Hints
) -> Iterator[Finding]:
    if not action.phases and located.is_read(*spot.path, "phases"):
        yield spot.finding(NO_PHASES, f"The action {spot.action} has no phases")
    first_lines: dict[str, int] = {}
    for path, phase in action.every_phase():
        here = Spot(spot.manifest, (*spot.path, *path), spot.action, phase.name, phase.func)
        if not phase.func and located.is_read(*here.path, "func"):
            yield here.finding(NO_FUNC, "The phase names no function in `func`")
        is_nameless = not phase.name and located.is_read(*here.path, "name")
        if is_nameless and path != ("deferPhase",):
            yield here.finding(NO_PHASE_NAME, "The phase has no name")
        for name, reference in phase.objects.items():
            is_fetched = reference.kind.lower() in ("secret", "configmap") or "{" in reference.kind
            if not is_fetched and located.is_read(*here.path, "objects", name, "kind"):
                kind = f"is {reference.kind}" if reference.kind else "has no kind"
                hint = hints.did_you_mean(reference.kind, ("Secret", "ConfigMap"))
                message = f"{name} {kind}, and only a Secret or a ConfigMap is fetched{hint}"
                yield here.at("objects", name).finding(NOT_FETCHED, message)
            elif is_fetched and not reference.name and located.is_whole(*here.path, "objects"):
                message = f"The reference {name} to a {reference.kind} has no name"
                yield here.at("objects", name).finding(OBJECT_UNNAMED, message)
        line = here.manifest.place_of((*here.path, "name")).line
        if phase.name and phase.name in first_lines:
            message = (
                f"The action {spot.action} has two phases called {phase.name}, "
                f"the first on line {first_lines[phase.name]}"
            )
            yield here.at("name").finding(DUPLICATE, message)
        first_lines.setdefault(phase.name, line)


def _duplicates_across(located: LocatedBlueprint) -> Iterator[Finding]:
    users: dict[str, dict[str, Spot]] = defaultdict(dict)
    for name, action in located.blueprint.actions.items():
        for path, phase in action.every_phase():
            if phase.name:
                at = ("actions", name, *path, "name")
                spot = Spot(located.manifest, at, name, phase.name, phase.func)
                users[phase.name].setdefault(name, spot)
    for phase_name, by_action in users.items():
        first, *duplicates = by_action.values()
        for spot in duplicates:
            message = f"{first.action} and {spot.action} both have a phase called {phase_name}"
            yield spot.finding(DUPLICATE_ACROSS, message)
