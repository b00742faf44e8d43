"""What is there to say about files with Blueprints and ActionSets?"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kanister_py.core.blueprints.lint import action_sets, structure, suppressions, versions
from kanister_py.core.blueprints.lint.context import Context
from kanister_py.core.blueprints.lint.findings import (
    Finding,
    Rule,
    Severity,
    Spot,
    finding_of,
    in_order,
)
from kanister_py.core.blueprints.model import (
    Blueprint,
    Found,
    LocatedBlueprint,
    objects_in,
    parse_blueprint,
)
from kanister_py.core.errors import InvalidDocument
from kanister_py.core.objects.documents import Document, kind_of, parse_documents
from kanister_py.core.registry.choose import asked_version

UNREADABLE = Rule(
    "file-unreadable",
    Severity.ERROR,
    "A file cannot be read as YAML.",
    "Files are read as Kubernetes' tools read them: UTF-8, at most 4 MiB, no key twice "
    "in one map, no aliases that multiply without end. The message says where it broke.",
)
NOT_A_BLUEPRINT = Rule(
    "blueprint-invalid",
    Severity.ERROR,
    "A Blueprint has something else where text, a list or a map belongs.",
    "An API server would refuse the object. The message says what belongs there.",
)
RULES: Final[Mapping[str, Rule]] = {
    rule.id: rule for rule in (UNREADABLE, NOT_A_BLUEPRINT, *versions.RULES, *structure.RULES)
}


@dataclass(frozen=True, slots=True)
class Source:
    """The text of a file. `is_named`: somebody asked for this very file, not for its folder."""

    file: str
    text: str | bytes
    is_named: bool = True


@dataclass(slots=True)
class _Read:
    """What a file holds that lint is about, and what kept the rest from being read."""

    blueprints: list[LocatedBlueprint] = field(default_factory=list)
    action_sets: list[Found] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    ignored: Mapping[int, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Report:
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
    reads = {source.file: _read(source) for source in sources}
    blueprints = {
        located.blueprint.name: located.blueprint
        for read in reads.values()
        for located in read.blueprints
    }
    findings: list[Finding] = []
    for read in reads.values():
        said = [*read.findings, *_said_of(read, blueprints, context)]
        findings += [each for each in said if not _is_ignored(each, read.ignored, ignore)]
    return Report(
        tuple(in_order(findings, [*reads])),
        sum(len(read.blueprints) for read in reads.values()),
        sum(len(read.action_sets) for read in reads.values()),
        tuple(
            source.file
            for source in sources
            if source.is_named and not _holds_anything(reads[source.file])
        ),
    )


def _holds_anything(read: _Read) -> bool:
    return bool(read.blueprints or read.action_sets or read.findings)


def _read(source: Source) -> _Read:
    read = _Read()
    try:
        documents = parse_documents(source.text, source.file)
    except InvalidDocument as error:
        read.findings += [finding_of(each, UNREADABLE) for each in error.problems]
        return read
    if source.is_named:
        read.findings += _not_objects(documents)
    for found in objects_in(documents):
        if found.kind == "ActionSet":
            read.action_sets.append(found)
        elif found.kind == "Blueprint":
            try:
                read.blueprints.append(parse_blueprint(found))
            except InvalidDocument as error:
                read.findings += [finding_of(each, NOT_A_BLUEPRINT) for each in error.problems]
    if read.blueprints or read.action_sets or read.findings:
        text = source.text
        decoded = text if isinstance(text, str) else text.decode("utf-8-sig")
        read.ignored = suppressions.suppressions_in(decoded)
    return read


def _not_objects(documents: Sequence[Document]) -> Iterator[Finding]:
    for document in documents:
        if not isinstance(document.value, dict):
            said = f"An object is a map, found {kind_of(document.value)}"
            yield finding_of(document.problem((), said), UNREADABLE)


def _said_of(
    read: _Read, blueprints: Mapping[str, Blueprint], context: Context
) -> Iterator[Finding]:
    for located in read.blueprints:
        yield from structure.check_structure(located)
        yield from _phases(located, context)
    for found in read.action_sets:
        for preference in action_sets.preferences_of(found, blueprints):
            yield from action_sets.check_preference(preference, context)


def _phases(located: LocatedBlueprint, context: Context) -> Iterator[Finding]:
    for name, action in located.blueprint.actions.items():
        for path, phase in action.every_phase():
            if not phase.func:
                continue
            here = ("actions", name, *path)
            spot = Spot(located.found, here, name, phase.name, phase.func)
            where = spot.at("funcVersion" if phase.func_version else "func")
            asked = asked_version(phase.func_version, None)
            _choice, findings = versions.check_version(where, asked, context)
            yield from findings


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
