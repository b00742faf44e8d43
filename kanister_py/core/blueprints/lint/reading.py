"""Contents of files: what lint looks at, and the comments that silence it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from kanister_py.core.blueprints.lint.action_sets import SCHEDULES, is_schedule, template_of
from kanister_py.core.blueprints.lint.findings import Finding, Hints, Rule, Severity, finding_of
from kanister_py.core.blueprints.lint.pipelines import is_of_pipelines
from kanister_py.core.blueprints.model import (
    GROUP,
    Blueprint,
    LocatedBlueprint,
    is_of_our_group,
    read_what_can_be_read,
)
from kanister_py.core.errors import InvalidDocument, Problem, did_you_mean
from kanister_py.core.kube.objects import Found, maps_at, objects_at
from kanister_py.core.yaml.documents import Document, kind_of, nearest, parse_documents

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

OVERLOOKED = Rule(
    "kind-overlooked",
    Severity.WARNING,
    "An object looks like a Blueprint or another of ours, but its kind does not say so.",
    "Kinds are exact, capitals included. Nothing in the object was looked at, and no "
    "API server takes it for what it seems to be.",
)
UNKNOWN_IGNORED = Rule(
    "ignore-unknown",
    Severity.WARNING,
    "A comment silences a rule that does not exist.",
    "A misspelt rule silences nothing. `kanister-py lint --explain all` lists the rules.",
)
RULES = (UNREADABLE, NOT_A_BLUEPRINT, OVERLOOKED, UNKNOWN_IGNORED)


class Source(NamedTuple):
    """The text of a file. `is_named`: this very file was asked for, not its folder."""

    file: str
    text: str | bytes
    is_named: bool = True


class Contents:
    """Objects of a file that lint is about, and findings about what could not be read."""

    def __init__(self) -> None:
        self.blueprints: list[LocatedBlueprint] = []
        self.action_sets: list[Found] = []
        self.profiles: list[Found] = []
        self.schedules: list[Found] = []
        self.pipelines: list[Found] = []
        """Compositions and Functions, and revisions of either."""
        self.findings: list[Finding] = []
        self.ignored: Mapping[int, frozenset[str]] = {}
        self.documents: list[Document] = []
        self.text = ""

    def take(self, found: Found) -> None:
        """Keep an object if lint is about it."""
        if is_schedule(found):
            self.schedules.append(found)
        elif is_of_pipelines(found):
            self.pipelines.append(found)
        elif not is_of_our_group(found):
            return
        elif found.kind == "ActionSet":
            self.action_sets.append(found)
        elif found.kind == "Profile":
            self.profiles.append(found)
        elif found.kind == "Blueprint":
            located, problems = read_what_can_be_read(found)
            self.blueprints.append(located)
            self.findings += [finding_of(each, NOT_A_BLUEPRINT) for each in problems]

    @property
    def templates(self) -> list[Found]:
        """The templates of Schedules, which stand where ActionSets would."""
        found = map(template_of, self.schedules)
        return [each for each in found if each is not None]

    @property
    def holds_anything(self) -> bool:
        objects = (self.blueprints, self.action_sets, self.profiles, self.schedules, self.pipelines)
        return any(objects) or bool(self.findings)


_KINDS: Mapping[str, tuple[str, ...]] = {
    GROUP: ("Blueprint", "ActionSet", "Profile", "RepositoryServer"),
    SCHEDULES: ("Schedule",),
    "apiextensions.crossplane.io": (
        "Composition",
        "CompositionRevision",
        "CompositeResourceDefinition",
        "EnvironmentConfig",
        "ManagedResourceActivationPolicy",
        "ManagedResourceDefinition",
        "Usage",
    ),
    "pkg.crossplane.io": (
        "Function",
        "FunctionRevision",
        "DeploymentRuntimeConfig",
        "ControllerConfig",
        "Configuration",
        "ConfigurationRevision",
        "Provider",
        "ProviderRevision",
        "ImageConfig",
        "Lock",
    ),
}
"""The kinds of each group, whether or not lint is about them."""


def read_source(source: Source) -> Contents:
    """Read what a file holds that lint is about, or what keeps it from being read."""
    read = Contents()
    try:
        documents = parse_documents(source.text, source.file)
    except InvalidDocument as error:
        read.findings += [finding_of(each, UNREADABLE) for each in error.problems]
        return read
    for document in documents if source.is_named else ():
        if not isinstance(document.value, dict):
            message = f"An object is a map, found {kind_of(document.value)}"
            read.findings.append(finding_of(document.problem((), message), UNREADABLE))
    for document in documents:
        read.findings += _overlooked(document)
        for found in objects_at(document, ()):
            read.take(found)
    if read.holds_anything:
        read.documents = documents
        read.text = text_of(source)
        read.ignored = suppressions_in(read.text)
    return read


def read_sources(sources: Iterable[Source]) -> tuple[dict[str, Contents], dict[str, Blueprint]]:
    """Read files that belong together: what each holds, and all Blueprints by their names."""
    contents = {source.file: read_source(source) for source in sources}
    located = (each for read in contents.values() for each in read.blueprints)
    return contents, {each.blueprint.name: each.blueprint for each in located}


def text_of(source: Source) -> str:
    """Give the characters of a file that could be read, counted as its places count them."""
    text = source.text
    decoded = text if isinstance(text, str) else text.decode()
    return decoded.removeprefix("\ufeff")


def _overlooked(document: Document) -> Iterator[Finding]:
    for path, value in maps_at(document, ()):
        kind, api_version = value.get("kind"), value.get("apiVersion")
        group = str(api_version or GROUP).partition("/")[0].casefold()
        message = ""
        if kind is None or kind == "":
            if _has_phases(value.get("actions")):
                message = "The kind is missing, is it a Blueprint? Nothing was judged"
        elif isinstance(kind, str) and kind not in _KINDS.get(group, (kind,)):
            message = _wrong_kind(kind, group, is_certain=bool(api_version))
        if message:
            yield finding_of(document.problem((*path, "kind"), message), OVERLOOKED)


def _wrong_kind(kind: str, group: str, *, is_certain: bool) -> str:
    """Say which kind of its group one that is none may have been meant for; nothing if none."""
    known = _KINDS[group]
    for each in known:
        if each.casefold() == kind.casefold():
            return f"The kind must be {each}, found {kind!r}: nothing was judged"
    near = nearest(kind, known) if is_certain else ()
    return f"{group} has no kind {kind}: nothing was judged{did_you_mean(near)}" if near else ""


def _has_phases(actions: object) -> bool:
    return isinstance(actions, dict) and any(
        isinstance(each, dict) and "phases" in each for each in actions.values()
    )


# Comments that silence rules


_COMMENT = re.compile(
    r"(?P<before>.*?)(?:^|(?<=\s))#\s*kanister-py:\s*ignore(?:\s*=\s*(?P<rules>[\w-]+(?:\s*,\s*[\w-]+)*))?\s*$"
)
EVERY_RULE = frozenset({"*"})


def suppressions_in(text: str) -> Mapping[int, frozenset[str]]:
    """Find the comments `# kanister-py: ignore` and `# kanister-py: ignore=RULE,RULE`.

    Gives the rules for each line. A comment on a line of its own speaks of the line below.
    """
    if "kanister-py:" not in text:
        return {}
    by_line: dict[int, frozenset[str]] = {}
    for number, match in _comments_in(text):
        target = number if match["before"].strip() else number + 1
        by_line[target] = by_line.get(target, frozenset()) | _rules_of(match)
    return by_line


def check_suppressions(
    text: str, file: str, known: Collection[str], hints: Hints
) -> Iterator[Finding]:
    """Find the comments that silence a rule which does not exist."""
    for number, match in _comments_in(text):
        for name in sorted(_rules_of(match) - EVERY_RULE - {*known}):
            meant = hints.did_you_mean(name, [*known])
            column = match.start("rules") + 1
            message = f"No rule {name!r} to ignore{meant}"
            yield finding_of(Problem(file, number, column, "", message), UNKNOWN_IGNORED)


def _comments_in(text: str) -> Iterator[tuple[int, re.Match[str]]]:
    for number, line in enumerate(text.splitlines(), 1):
        match = _COMMENT.match(line)
        if match is not None:
            yield number, match


def _rules_of(match: re.Match[str]) -> frozenset[str]:
    rules = match["rules"]
    return frozenset(rule.strip() for rule in rules.split(",")) if rules else EVERY_RULE
