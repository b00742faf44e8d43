"""Contents of files: the Blueprints and ActionSets that lint looks at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kanister_py.core.blueprints.lint.findings import Finding, Rule, Severity, finding_of
from kanister_py.core.blueprints.lint.pipelines import pipelines_in
from kanister_py.core.blueprints.lint.schedules import schedules_in, template_of
from kanister_py.core.blueprints.lint.suppressions import suppressions_in
from kanister_py.core.blueprints.model import (
    GROUP,
    Found,
    LocatedBlueprint,
    objects_in,
    read_what_can_be_read,
)
from kanister_py.core.errors import InvalidDocument
from kanister_py.core.objects.documents import Document, Path, kind_of, parse_documents

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
    "An object looks like a Blueprint or an ActionSet, but its kind does not say so.",
    "Kinds are exact, capitals included. Nothing in the object was looked at, and no "
    "API server takes it for what it seems to be.",
)
RULES = (UNREADABLE, NOT_A_BLUEPRINT, OVERLOOKED)


class Source(NamedTuple):
    """The text of a file. `is_named`: this very file was asked for, not its folder."""

    file: str
    text: str | bytes
    is_named: bool = True


class Contents:
    """What a file holds that lint is about, and what kept the rest from being read."""

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

    @property
    def templates(self) -> list[Found]:
        """What Schedules make ActionSets of."""
        found = map(template_of, self.schedules)
        return [each for each in found if each is not None]

    @property
    def holds_anything(self) -> bool:
        objects = (self.blueprints, self.action_sets, self.profiles, self.schedules, self.pipelines)
        return any(objects) or bool(self.findings)


def read_source(source: Source) -> Contents:
    """Read what a file holds that lint is about, or what keeps it from being read."""
    read = Contents()
    try:
        documents = parse_documents(source.text, source.file)
    except InvalidDocument as error:
        read.findings += [finding_of(each, UNREADABLE) for each in error.problems]
        return read
    if source.is_named:
        read.findings += _not_objects(documents)
    read.findings += _overlooked(documents)
    for found in objects_in(documents):
        if found.kind == "ActionSet":
            read.action_sets.append(found)
        elif found.kind == "Profile":
            read.profiles.append(found)
        elif found.kind == "Blueprint":
            located, problems = read_what_can_be_read(found)
            read.blueprints.append(located)
            read.findings += [finding_of(each, NOT_A_BLUEPRINT) for each in problems]
    read.schedules += schedules_in(documents)
    read.pipelines += pipelines_in(documents)
    if read.holds_anything:
        read.documents = documents
        read.text = text_of(source)
        read.ignored = suppressions_in(read.text)
    return read


def text_of(source: Source) -> str:
    """Give the characters of a file that could be read, counted as its places count them."""
    text = source.text
    decoded = text if isinstance(text, str) else text.decode()
    return decoded.removeprefix("\ufeff")


_KINDS: Mapping[str, str] = {"blueprint": "Blueprint", "actionset": "ActionSet"}


def _overlooked(documents: Sequence[Document]) -> Iterator[Finding]:
    for document in documents:
        yield from _overlooked_at(document, ())


def _overlooked_at(document: Document, path: Path) -> Iterator[Finding]:
    node = document.node_at(path)
    value = node.value if node is not None else None
    if isinstance(value, dict):
        items = value.get("items")
        if value.get("kind") == "List" and isinstance(items, list):
            for index in range(len(items)):
                yield from _overlooked_at(document, (*path, "items", index))
            return
        kind, api_version = value.get("kind"), value.get("apiVersion")
        group = str(api_version or GROUP).partition("/")[0]
        if kind is None or kind == "":
            if _has_phases(value.get("actions")):
                said = "The kind is missing, is it a Blueprint? Nothing was judged"
                yield finding_of(document.problem((*path, "kind"), said), OVERLOOKED)
        elif isinstance(kind, str) and group.casefold() == GROUP:
            meant = _KINDS.get(kind.casefold(), kind)
            if meant != kind:
                said = f"The kind must be {meant}, found {kind!r}: nothing was judged"
                yield finding_of(document.problem((*path, "kind"), said), OVERLOOKED)


def _has_phases(actions: object) -> bool:
    return isinstance(actions, dict) and any(
        isinstance(each, dict) and "phases" in each for each in actions.values()
    )


def _not_objects(documents: Sequence[Document]) -> Iterator[Finding]:
    for document in documents:
        if not isinstance(document.value, dict):
            said = f"An object is a map, found {kind_of(document.value)}"
            yield finding_of(document.problem((), said), UNREADABLE)
