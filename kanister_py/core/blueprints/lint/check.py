"""Lint: everything there is to say about files with Blueprints and ActionSets."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import starmap
from typing import NamedTuple

from kanister_py.core.blueprints.lint import (
    action_sets,
    arguments,
    durations,
    pipelines,
    reading,
    schedules,
    structure,
    suppressions,
    versions,
)
from kanister_py.core.blueprints.lint.actions import check_actions
from kanister_py.core.blueprints.lint.context import Context
from kanister_py.core.blueprints.lint.findings import Finding, Hints, Rule, in_order
from kanister_py.core.blueprints.lint.reading import (
    NOT_A_BLUEPRINT,
    UNREADABLE,
    Contents,
    Source,
    read_source,
)
from kanister_py.core.blueprints.model import Blueprint
from kanister_py.core.objects.locations import unknown_keys_of_profile
from kanister_py.core.objects.reading import UnknownKey


def rules() -> Mapping[str, Rule]:
    """Give every rule by its id."""
    from kanister_py.core.blueprints.lint import templates

    return {
        rule.id: rule
        for rule in (
            *reading.RULES,
            *suppressions.RULES,
            *action_sets.RULES,
            *schedules.RULES,
            *pipelines.RULES,
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
    """Files that were named and hold nothing that lint is about."""
    compositions: int = 0
    """Compositions, and revisions of such."""
    schedules: int = 0


def lint_sources(
    sources: Sequence[Source], context: Context, ignore: Collection[str] = ()
) -> Report:
    """Look at files together: an ActionSet is held against the Blueprint in another file."""
    context = context._replace(hints=Hints())
    reads = {source.file: read_source(source) for source in sources}
    blueprints = {
        located.blueprint.name: located.blueprint
        for read in reads.values()
        for located in read.blueprints
    }
    composed = [found for read in reads.values() for found in read.pipelines]
    packages = pipelines.packages_of(composed, context.registry) if composed else {}
    findings: list[Finding] = []
    for file, read in reads.items():
        said = [*read.findings, *_said_of(read, blueprints, context)]
        for found in read.pipelines:
            said += pipelines.check_pipeline(found, packages, context)
        if read.ignored:
            said += suppressions.check_suppressions(read.text, file, rules(), context.hints)
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
        sum(map(pipelines.is_pipeline, composed)),
        sum(len(read.schedules) for read in reads.values()),
    )


def _said_of(
    read: Contents, blueprints: Mapping[str, Blueprint], context: Context
) -> Iterator[Finding]:
    for located in read.blueprints:
        yield from structure.check_structure(located, context.hints)
        yield from check_actions(located, context)
    for found in read.profiles:
        unknown = starmap(UnknownKey, unknown_keys_of_profile(found.value))
        yield from structure.unknown_keys(found, unknown, context.hints)
    for found in read.action_sets:
        yield from action_sets.check_action_set(found, blueprints, context)
    for found in read.schedules:
        yield from schedules.check_schedule(found, blueprints, context)


def _is_ignored(
    finding: Finding, ignored: Mapping[int, frozenset[str]], ignore: Collection[str]
) -> bool:
    if finding.rule in ignore:
        return True
    here = ignored.get(finding.line, frozenset())
    # What cannot be read is no matter of taste.
    is_taste = finding.rule not in (UNREADABLE.id, NOT_A_BLUEPRINT.id)
    return is_taste and (finding.rule in here or here == suppressions.EVERY_RULE)
