"""Objects of files for lint, and the comments that suppress rules."""

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
    read_partial_blueprint,
)
from kanister_py.core.errors import InvalidDocument, Problem, did_you_mean
from kanister_py.core.kube.objects import LocatedObject, maps_at, objects_at
from kanister_py.core.yaml.documents import Document, kind_of, nearest, parse_documents

UNREADABLE = Rule(
    "file-unreadable",
    Severity.ERROR,
    "A file cannot be read as YAML.",
    "Files are read like Kubernetes tools read them: UTF-8, at most 4 MiB, no duplicate keys "
    "in a mapping, no aliases that multiply without end. The message names the line.",
)
NOT_A_BLUEPRINT = Rule(
    "blueprint-invalid",
    Severity.ERROR,
    "A Blueprint has a value of the wrong type.",
    "An API server would refuse the object. The message names the expected type.",
)

OVERLOOKED = Rule(
    "kind-overlooked",
    Severity.WARNING,
    "An object looks like a Blueprint or a similar resource, but has another kind.",
    "Kinds are exact, including capitals. The object was not checked, and no API server "
    "treats it as the resource that it resembles.",
)
UNKNOWN_IGNORED = Rule(
    "ignore-unknown",
    Severity.WARNING,
    "A comment suppresses an unknown rule.",
    "Such a comment has no effect. `kanister-py lint --explain all` lists the rules.",
)
RULES = (UNREADABLE, NOT_A_BLUEPRINT, OVERLOOKED, UNKNOWN_IGNORED)


class Source(NamedTuple):
    """Text of a file. `is_named` is set if the user named the file, not only its folder."""

    file: str
    text: str | bytes
    is_named: bool = True


class Contents:
    """Objects of a file that lint checks, and findings about unreadable parts."""

    def __init__(self) -> None:
        self.blueprints: list[LocatedBlueprint] = []
        self.action_sets: list[LocatedObject] = []
        self.profiles: list[LocatedObject] = []
        self.schedules: list[LocatedObject] = []
        self.pipelines: list[LocatedObject] = []
        """Compositions, Functions and their revisions."""
        self.definitions: list[LocatedObject] = []
        """CompositeResourceDefinitions and CustomResourceDefinitions."""
        self.findings: list[Finding] = []
        self.ignored: Mapping[int, frozenset[str]] = {}
        self.documents: list[Document] = []
        self.text = ""

    def add(self, manifest: LocatedObject) -> None:
        """Add an object if lint checks its kind."""
        if is_schedule(manifest):
            self.schedules.append(manifest)
        elif is_of_pipelines(manifest):
            self.pipelines.append(manifest)
        elif manifest.kind in _DEFINITIONS.get(manifest.group, ()):
            self.definitions.append(manifest)
        elif not is_of_our_group(manifest):
            return
        elif manifest.kind == "ActionSet":
            self.action_sets.append(manifest)
        elif manifest.kind == "Profile":
            self.profiles.append(manifest)
        elif manifest.kind == "Blueprint":
            located, problems = read_partial_blueprint(manifest)
            self.blueprints.append(located)
            self.findings += [finding_of(problem, NOT_A_BLUEPRINT) for problem in problems]

    @property
    def templates(self) -> list[LocatedObject]:
        """Templates of the Schedules, in the place of ActionSets."""
        templates = map(template_of, self.schedules)
        return [template for template in templates if template is not None]

    @property
    def holds_anything(self) -> bool:
        objects = (self.blueprints, self.action_sets, self.profiles, self.schedules, self.pipelines)
        return any(objects) or bool(self.definitions) or bool(self.findings)


_DEFINITIONS: Mapping[str, tuple[str, ...]] = {
    "apiextensions.crossplane.io": ("CompositeResourceDefinition",),
    "apiextensions.k8s.io": ("CustomResourceDefinition",),
}
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
"""Kinds of the API groups, including kinds that lint does not check."""


def read_source(source: Source) -> Contents:
    """Read the objects of a file, or the errors that prevent it."""
    contents = Contents()
    try:
        documents = parse_documents(source.text, source.file)
    except InvalidDocument as error:
        contents.findings += [finding_of(problem, UNREADABLE) for problem in error.problems]
        return contents
    for document in documents if source.is_named else ():
        if not isinstance(document.value, dict):
            message = f"An object is a map, found {kind_of(document.value)}"
            contents.findings.append(finding_of(document.problem((), message), UNREADABLE))
    for document in documents:
        contents.findings += _overlooked(document)
        for obj in objects_at(document, ()):
            contents.add(obj)
    if contents.holds_anything:
        contents.documents = documents
        contents.text = text_of(source)
        contents.ignored = suppressions_in(contents.text)
    return contents


def read_sources(sources: Iterable[Source]) -> tuple[dict[str, Contents], dict[str, Blueprint]]:
    """Read files that belong together; return their contents, and all Blueprints by name."""
    contents = {source.file: read_source(source) for source in sources}
    located = (blueprint for read in contents.values() for blueprint in read.blueprints)
    return contents, {blueprint.blueprint.name: blueprint.blueprint for blueprint in located}


def text_of(source: Source) -> str:
    """Return the decoded text of a readable file without a byte order mark."""
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
                message = "The kind is missing; did you mean Blueprint? The object was not checked"
        elif isinstance(kind, str) and kind not in _KINDS.get(group, (kind,)):
            message = _wrong_kind(kind, group, is_certain=bool(api_version))
        if message:
            yield finding_of(document.problem((*path, "kind"), message), OVERLOOKED)


def _wrong_kind(kind: str, group: str, *, is_certain: bool) -> str:
    """Return a message for an unknown kind that resembles one of its group, else nothing."""
    kinds = _KINDS[group]
    for expected in kinds:
        if expected.casefold() == kind.casefold():
            return f"The kind must be {expected}, found {kind!r}; the object was not checked"
    near = nearest(kind, kinds) if is_certain else ()
    return (
        f"{group} has no kind {kind}{did_you_mean(near)} The object was not checked" if near else ""
    )


def _has_phases(actions: object) -> bool:
    return isinstance(actions, dict) and any(
        isinstance(action, dict) and "phases" in action for action in actions.values()
    )


# Comments that suppress rules


_COMMENT = re.compile(
    r"(?P<before>.*?)(?:^|(?<=\s))#\s*kanister-py:\s*ignore(?:\s*=\s*(?P<rules>[\w-]+(?:\s*,\s*[\w-]+)*))?\s*$"
)
ALL_RULES = frozenset({"*"})


def suppressions_in(text: str) -> Mapping[int, frozenset[str]]:
    """Map line numbers to the rules that comments suppress there.

    The comments are `# kanister-py: ignore` and `# kanister-py: ignore=RULE,RULE`. A comment on a
    line of its own applies to the next line.
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
    """Find comments that suppress unknown rules."""
    for number, match in _comments_in(text):
        for name in sorted(_rules_of(match) - ALL_RULES - {*known}):
            hint = hints.did_you_mean(name, [*known])
            column = match.start("rules") + 1
            message = f"There is no rule {name!r} to ignore{hint}"
            yield finding_of(Problem(file, number, column, "", message), UNKNOWN_IGNORED)


def _comments_in(text: str) -> Iterator[tuple[int, re.Match[str]]]:
    for number, line in enumerate(text.splitlines(), 1):
        match = _COMMENT.match(line)
        if match is not None:
            yield number, match


def _rules_of(match: re.Match[str]) -> frozenset[str]:
    rules = match["rules"]
    return frozenset(rule.strip() for rule in rules.split(",")) if rules else ALL_RULES
