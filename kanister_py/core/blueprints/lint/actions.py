"""Actions of a Blueprint: versions, arguments, times and templates of their phases."""

from __future__ import annotations

from collections.abc import Iterator

from kanister_py.core.blueprints.lint import arguments, durations, versions
from kanister_py.core.blueprints.lint.context import Context
from kanister_py.core.blueprints.lint.findings import Finding, Spot
from kanister_py.core.blueprints.model import LocatedBlueprint, Phase
from kanister_py.core.blueprints.texts import has_templates
from kanister_py.core.objects.documents import Path
from kanister_py.core.registry.choose import asked_version
from kanister_py.core.registry.entries import FunctionEntry


def check_actions(located: LocatedBlueprint, context: Context) -> Iterator[Finding]:
    """Judge every action of a Blueprint."""
    if not has_templates(located.blueprint):
        for name in located.blueprint.actions:
            yield from _phases(located, name, context, {})
        return
    # Reading templates takes an engine, which texts without any do not wait for.
    from kanister_py.core.blueprints.lint.templates import check_engine, check_templates

    language, findings = check_engine(located)
    yield from findings
    for name in located.blueprint.actions:
        entries: dict[Path, FunctionEntry] = {}
        yield from _phases(located, name, context, entries)
        if language is not None:
            yield from check_templates(located, name, language, entries, context)


def _phases(
    located: LocatedBlueprint,
    name: str,
    context: Context,
    entries: dict[Path, FunctionEntry],
) -> Iterator[Finding]:
    """Judge the phases of an action by themselves; `entries` takes what each of them calls."""
    for path, phase in located.blueprint.actions[name].every_phase():
        spot = Spot(located.found, ("actions", name, *path), name, phase.name, phase.func)
        # Whatever a version that cannot be read asks for, it is not the default.
        if not phase.func or not located.is_read(*spot.path, "funcVersion"):
            continue
        where = spot.at("funcVersion" if phase.func_version else "func")
        asked = asked_version(phase.func_version, None)
        choice, findings = versions.check_version(where, asked, context)
        yield from findings
        if choice is not None:
            entries[spot.path] = choice.chosen
            yield from _arguments(located, spot, phase, choice.chosen, context)
        yield from durations.check_durations(spot, phase)


def _arguments(
    located: LocatedBlueprint, spot: Spot, phase: Phase, entry: FunctionEntry, context: Context
) -> Iterator[Finding]:
    if located.is_read(*spot.path, "args"):
        yield from arguments.check_arguments(spot, phase, entry, context)
