"""What is there to say about files with Blueprints and ActionSets?"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from kanister_py.core.blueprints.lint import (
    action_sets,
    arguments,
    durations,
    reading,
    structure,
    suppressions,
    versions,
)
from kanister_py.core.blueprints.lint.context import Context
from kanister_py.core.blueprints.lint.findings import Finding, Rule, Severity, Spot, in_order
from kanister_py.core.blueprints.lint.reading import (
    NOT_A_BLUEPRINT,
    UNREADABLE,
    Contents,
    Source,
    read_source,
)
from kanister_py.core.blueprints.model import Blueprint, LocatedBlueprint
from kanister_py.core.blueprints.texts import has_templates
from kanister_py.core.objects.documents import Path
from kanister_py.core.registry.choose import asked_version


def rules() -> Mapping[str, Rule]:
    """Give every rule by its id."""
    from kanister_py.core.blueprints.lint import templates

    return {
        rule.id: rule
        for rule in (
            *reading.RULES,
            *suppressions.RULES,
            *action_sets.RULES,
            *versions.RULES,
            *structure.RULES,
            *arguments.RULES,
            *durations.RULES,
            *templates.RULES,
        )
    }


class Report(NamedTuple):
    """Everything that was found, and how much was looked at."""

    findings: tuple[Finding, ...]
    blueprints: int
    action_sets: int
    empty_files: tuple[str, ...]
    """Files that were named and hold neither a Blueprint nor an ActionSet."""


def lint_sources(
    sources: Sequence[Source], context: Context, ignore: Collection[str] = ()
) -> Report:
    """Look at files together: an ActionSet is held against the Blueprint in another file."""
    reads = {source.file: read_source(source) for source in sources}
    blueprints = {
        located.blueprint.name: located.blueprint
        for read in reads.values()
        for located in read.blueprints
    }
    findings: list[Finding] = []
    for file, read in reads.items():
        said = [*read.findings, *_said_of(read, blueprints, context)]
        if read.ignored:
            said += suppressions.check_suppressions(read.text, file, rules())
        findings += [each for each in said if not _is_ignored(each, read.ignored, ignore)]
    return Report(
        tuple(in_order(findings, [*reads])),
        sum(len(read.blueprints) for read in reads.values()),
        sum(len(read.action_sets) for read in reads.values()),
        tuple(
            source.file
            for source in sources
            if source.is_named and not reads[source.file].holds_anything
        ),
    )


def _said_of(
    read: Contents, blueprints: Mapping[str, Blueprint], context: Context
) -> Iterator[Finding]:
    for located in read.blueprints:
        yield from structure.check_structure(located)
        yield from _phases(located, context)
    for found in read.action_sets:
        for preference in action_sets.preferences_of(found, blueprints):
            yield from action_sets.check_preference(preference, context)


def _phases(located: LocatedBlueprint, context: Context) -> Iterator[Finding]:
    outputs: dict[tuple[str, str], frozenset[str]] = {}
    callable_in: dict[Path, tuple[str, ...]] = {}
    for name, action in located.blueprint.actions.items():
        for path, phase in action.every_phase():
            if not phase.func:
                continue
            spot = Spot(located.found, ("actions", name, *path), name, phase.name, phase.func)
            if not located.is_read(*spot.path, "funcVersion"):
                # Whatever it asks for, it is not the default.
                continue
            where = spot.at("funcVersion" if phase.func_version else "func")
            asked = asked_version(phase.func_version, None)
            choice, findings = versions.check_version(where, asked, context)
            yield from findings
            if choice is not None:
                if located.is_read(*spot.path, "args"):
                    yield from arguments.check_arguments(spot, phase, choice.chosen, context)
                made = arguments.declared_outputs(choice.chosen, context)
                if made is not None:
                    outputs[name, phase.name] = made
                called = arguments.condition_functions(choice.chosen, context)
                if called is not None:
                    callable_in[spot.path] = called
            yield from durations.check_durations(spot, phase)
    if has_templates(located.blueprint):
        # Reading templates takes an engine, which texts without any do not wait for.
        from kanister_py.core.blueprints.lint.templates import check_templates

        yield from check_templates(located, outputs, callable_in)


def _is_ignored(
    finding: Finding, ignored: Mapping[int, frozenset[str]], ignore: Collection[str]
) -> bool:
    if finding.rule in ignore:
        return True
    here = ignored.get(finding.line, frozenset())
    # What cannot be read is no matter of taste.
    is_taste = finding.rule not in (UNREADABLE.id, NOT_A_BLUEPRINT.id)
    return is_taste and (finding.rule in here or here == suppressions.EVERY_RULE)


# Of several, the first of these that was found decides how lint ends.
EXIT_FINE, EXIT_ERROR, EXIT_DEPRECATED, EXIT_REMOVED, EXIT_NO_REPLACEMENT = 0, 1, 2, 3, 4


def exit_code_of(findings: Sequence[Finding]) -> int:
    """Say with which code lint ends: 1 before 4 before 3 before 2."""
    ended = (versions.REMOVED.id, versions.DEPRECATED.id)
    if any(each.severity is Severity.ERROR and each.rule not in ended for each in findings):
        return EXIT_ERROR
    if any(each.rule in ended and not each.replacement for each in findings):
        return EXIT_NO_REPLACEMENT
    if any(each.rule == versions.REMOVED.id for each in findings):
        return EXIT_REMOVED
    if any(each.rule == versions.DEPRECATED.id for each in findings):
        return EXIT_DEPRECATED
    return EXIT_FINE
