"""Lint entry point: all findings of all files."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from kanister_py.core.blueprints.analysis import wrong_durations
from kanister_py.core.blueprints.lint import (
    action_sets,
    arguments,
    patches,
    pipelines,
    reading,
    structure,
    templates,
    versions,
)
from kanister_py.core.blueprints.lint.context import Context
from kanister_py.core.blueprints.lint.findings import Finding, Hints, Rule, Spot, in_order
from kanister_py.core.blueprints.lint.reading import (
    NOT_A_BLUEPRINT,
    UNREADABLE,
    Contents,
    Source,
    read_sources,
)
from kanister_py.core.blueprints.model import Blueprint, LocatedBlueprint
from kanister_py.core.blueprints.profiles import ProfileObject
from kanister_py.core.blueprints.texts import has_templates
from kanister_py.core.models import unknown_keys
from kanister_py.core.registry.choose import requested_version
from kanister_py.core.registry.entries import FunctionEntry
from kanister_py.core.yaml.documents import Path


def rules() -> Mapping[str, Rule]:
    """Map rule ids to rules."""
    return {
        rule.id: rule
        for rule in (
            *reading.RULES,
            *action_sets.RULES,
            *pipelines.RULES,
            *patches.RULES,
            *versions.RULES,
            *structure.RULES,
            *arguments.RULES,
            *templates.RULES,
        )
    }


class Report(NamedTuple):
    """Findings, and numbers of the objects that were checked."""

    findings: tuple[Finding, ...]
    blueprints: int
    action_sets: int
    empty_files: tuple[str, ...]
    """Files named by the user that hold no object for lint."""
    compositions: int = 0
    """Number of Compositions and CompositionRevisions."""
    schedules: int = 0


def lint_sources(
    sources: Sequence[Source], context: Context, ignore: Collection[str] = ()
) -> Report:
    """Check files together: an ActionSet can use a Blueprint of another file."""
    context = context._replace(hints=Hints())
    reads, blueprints = read_sources(sources)
    composed = [pipeline for read in reads.values() for pipeline in read.pipelines]
    packages = pipelines.packages_of(composed, context.registry) if composed else {}
    definitions = [definition for read in reads.values() for definition in read.definitions]
    schemas = patches.schemas_of(definitions, context)
    findings: list[Finding] = []
    for file, read in reads.items():
        of_file = [*read.findings, *_findings_of(read, blueprints, context)]
        for pipeline in read.pipelines:
            of_file += pipelines.check_pipeline(pipeline, packages, context)
            of_file += patches.check_patches(pipeline, schemas, context)
        if read.ignored:
            of_file += reading.check_suppressions(read.text, file, rules(), context.hints)
        findings += [
            finding for finding in of_file if not _is_ignored(finding, read.ignored, ignore)
        ]
    return Report(
        tuple(in_order(findings, [*reads])),
        sum(len(read.blueprints) for read in reads.values()),
        sum(len(read.action_sets) for read in reads.values()),
        tuple(
            source.file
            for source in sources
            if source.is_named and not reads[source.file].holds_anything
        ),
        sum(map(pipelines.is_pipeline, composed)),
        sum(len(read.schedules) for read in reads.values()),
    )


def _findings_of(
    read: Contents, blueprints: Mapping[str, Blueprint], context: Context
) -> Iterator[Finding]:
    for located in read.blueprints:
        yield from structure.check_structure(located, context.hints)
        yield from check_actions(located, context)
    for profile in read.profiles:
        unknown = unknown_keys(ProfileObject, profile.value)
        yield from structure.unknown_keys(profile, unknown, context.hints)
    for action_set in read.action_sets:
        yield from action_sets.check_action_set(action_set, blueprints, context)
    for schedule in read.schedules:
        yield from action_sets.check_schedule(schedule, blueprints, context)


def check_actions(located: LocatedBlueprint, context: Context) -> Iterator[Finding]:
    """Check every action of a Blueprint."""
    if not has_templates(located.blueprint):
        for name in located.blueprint.actions:
            yield from _check_phases(located, name, context, {})
        return
    language, findings = templates.check_engine(located)
    yield from findings
    for name in located.blueprint.actions:
        entries: dict[Path, FunctionEntry] = {}
        yield from _check_phases(located, name, context, entries)
        if language is not None:
            yield from templates.ActionTexts(located, name, language, entries, context).findings()


def _check_phases(
    located: LocatedBlueprint, name: str, context: Context, entries: dict[Path, FunctionEntry]
) -> Iterator[Finding]:
    """Check the phases of an action; record the chosen version of each phase in `entries`."""
    for path, phase in located.blueprint.actions[name].every_phase():
        spot = Spot(located.manifest, ("actions", name, *path), name, phase.name, phase.func)
        # An unreadable version must not be treated as an omitted one.
        if not phase.func or not located.is_read(*spot.path, "funcVersion"):
            continue
        is_version = phase.func_version and phase.func in context.registry
        where = spot.at("funcVersion" if is_version else "func")
        requested = requested_version(phase.func_version, None)
        choice, findings = versions.check_version(where, requested, context)
        yield from findings
        if choice is not None:
            entries[spot.path] = choice.chosen
            if located.is_read(*spot.path, "args"):
                yield from arguments.check_arguments(spot, phase, choice.chosen, context)
        for inside, error in wrong_durations(phase):
            yield spot.at(*inside).finding(arguments.DURATION, error.message)
        yield from arguments.check_retry(spot, phase, context.hints)


def _is_ignored(
    finding: Finding, ignored: Mapping[int, frozenset[str]], ignore: Collection[str]
) -> bool:
    if finding.rule in ignore:
        return True
    rules_of_line = ignored.get(finding.line, frozenset())
    # Files that cannot be read are always reported.
    is_ignorable = finding.rule not in (UNREADABLE.id, NOT_A_BLUEPRINT.id)
    return is_ignorable and (finding.rule in rules_of_line or rules_of_line == reading.ALL_RULES)
