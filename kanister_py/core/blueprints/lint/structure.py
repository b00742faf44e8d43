"""Structure of Blueprints: keys, names and phases, whatever the phases do."""

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
from kanister_py.core.kube.objects import Found
from kanister_py.core.models import UnknownKey

UNKNOWN_KEY = Rule(
    "unknown-key",
    Severity.WARNING,
    "A key that nothing reads.",
    "An API server drops unknown keys without a word. More often than not they are "
    "misspelt, and what they should have said (`retries` for `retry`) does not happen.",
)
API_VERSION = Rule(
    "api-version",
    Severity.ERROR,
    "An object does not say cr.kanister.io/v1alpha1.",
    "Without its apiVersion no API server takes the object, and with another version "
    "none that is installed today does.",
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
    "There is nothing that could be run of it. The key is `actions`, a map by their names.",
)
NO_PHASES = Rule(
    "action-without-phases",
    Severity.WARNING,
    "An action has no phases.",
    "An ActionSet that runs it is complete at once and has done nothing.",
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
    "Later phases cannot read its output, and status and events cannot tell it from "
    "others. A deferPhase may do without.",
)
DUPLICATE = Rule(
    "duplicate-phase-name",
    Severity.ERROR,
    "Two phases of one action have the same name.",
    "Outputs and progress go by the phase's name, so one of the two gets lost.",
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
    "Only these two are fetched for the templates of a phase, and by their `kind`; all "
    "other references are passed over without a word.",
)
OBJECT_UNNAMED = Rule(
    "object-without-name",
    Severity.ERROR,
    "A phase refers to a Secret or a ConfigMap without saying which.",
    "There is no object without a name: the phase fails before it does anything.",
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
    """Find what is odd about the form of a Blueprint."""
    blueprint, spot = located.blueprint, Spot(located.found)
    version = blueprint.api_version
    if located.is_read("apiVersion") and version != GROUP_VERSION:
        found = f"found {version!r}" if version else "it is missing"
        message = f"The apiVersion must be {GROUP_VERSION}; {found}"
        yield spot.at("apiVersion").finding(API_VERSION, message)
    if not blueprint.name and located.is_read("metadata", "name"):
        yield spot.at("metadata").finding(NO_NAME, "The Blueprint has no metadata.name")
    yield from unknown_keys(located.found, located.unknown_keys, hints)
    if not blueprint.actions and located.is_read("actions"):
        yield spot.at("actions").finding(NO_ACTIONS, "The Blueprint has no actions")
    for name, action in blueprint.actions.items():
        yield from _action(located, Spot(located.found, ("actions", name), name), action, hints)
    yield from _duplicates_across(located)


def unknown_keys(found: Found, unknown: Iterable[UnknownKey], hints: Hints) -> Iterator[Finding]:
    """Report the keys that nothing reads."""
    for path, known in unknown:
        key = str(path[-1])
        meant = hints.did_you_mean(key, known) or f"; there are {', '.join(known)}"
        message = f"Nothing reads the key {key!r}{meant}"
        yield Spot(found, path).finding(UNKNOWN_KEY, message)


def check_form(found: Found, kind: str, rule: Rule, context: Context) -> list[Finding]:
    """Hold an object against the form of its kind, where that can be read."""
    reader = context.readers.get(kind)
    if reader is None:
        return []
    unknown, problems = reader(found)
    broken = [finding_of(each, rule) for each in problems]
    return [*broken, *unknown_keys(found, unknown, context.hints)]


def _action(
    located: LocatedBlueprint, spot: Spot, action: Action, hints: Hints
) -> Iterator[Finding]:
    if not action.phases and located.is_read(*spot.path, "phases"):
        yield spot.finding(NO_PHASES, f"The action {spot.action} has no phases")
    seen: dict[str, int] = {}
    for path, phase in action.every_phase():
        here = Spot(spot.found, (*spot.path, *path), spot.action, phase.name, phase.func)
        if not phase.func and located.is_read(*here.path, "func"):
            yield here.finding(NO_FUNC, "The phase names no function in `func`")
        is_nameless = not phase.name and located.is_read(*here.path, "name")
        if is_nameless and path != ("deferPhase",):
            yield here.finding(NO_PHASE_NAME, "The phase has no name")
        for name, reference in phase.objects.items():
            is_fetched = reference.kind.lower() in ("secret", "configmap") or "{" in reference.kind
            if not is_fetched and located.is_read(*here.path, "objects", name, "kind"):
                kind = f"is {reference.kind}" if reference.kind else "says no kind"
                meant = hints.did_you_mean(reference.kind, ("Secret", "ConfigMap"))
                message = f"{name} {kind}, and only a Secret or a ConfigMap is fetched{meant}"
                yield here.at("objects", name).finding(NOT_FETCHED, message)
            elif is_fetched and not reference.name and located.is_whole(*here.path, "objects"):
                message = f"{name} does not say which {reference.kind}: it has no name"
                yield here.at("objects", name).finding(OBJECT_UNNAMED, message)
        line = here.found.place_of((*here.path, "name")).line
        if phase.name and phase.name in seen:
            message = (
                f"The action {spot.action} has two phases called {phase.name}, "
                f"the first on line {seen[phase.name]}"
            )
            yield here.at("name").finding(DUPLICATE, message)
        seen.setdefault(phase.name, line)


def _duplicates_across(located: LocatedBlueprint) -> Iterator[Finding]:
    users: dict[str, dict[str, Spot]] = defaultdict(dict)
    for name, action in located.blueprint.actions.items():
        for path, phase in action.every_phase():
            if phase.name:
                at = ("actions", name, *path, "name")
                spot = Spot(located.found, at, name, phase.name, phase.func)
                users[phase.name].setdefault(name, spot)
    for phase_name, by_action in users.items():
        first, *others = by_action.values()
        for spot in others:
            message = f"{first.action} and {spot.action} both have a phase called {phase_name}"
            yield spot.finding(DUPLICATE_ACROSS, message)
