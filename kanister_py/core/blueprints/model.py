"""What does a Blueprint say, and where does it say it?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, model_validator

from kanister_py.core.errors import InvalidDocument, Problem
from kanister_py.core.objects.documents import Document, Path, Place, kind_of
from kanister_py.core.objects.model import ApiObject, parse_model

GROUP: Final = "cr.kanister.io"
TEMPLATE_ENGINE_ANNOTATION: Final = "kanister-py.io/template-engine"

# Taken for ours also without an apiVersion, which is then what is wrong with them.
_OUR_KINDS = frozenset({"Blueprint", "ActionSet"})


def _as_text(value: Any) -> Any:
    """Write a scalar as YAML would: a condition may be given as `false` or `0`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


class _Part(ApiObject):
    """A part of a Blueprint: a field that is null is one that is left out."""

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        return {key: value for key, value in data.items() if value is not None}


class ObjectReference(_Part):
    """An object by its name. `api_version` is the version alone, the group stands apart."""

    api_version: str = ""
    group: str = ""
    resource: str = ""
    kind: str = ""
    name: str = ""
    namespace: str = ""


class Artifact(_Part):
    """What an action leaves for the next one: texts under keys, or a snapshot's description."""

    key_value: dict[str, str] = Field(default_factory=dict)
    kopia_snapshot: str = ""


class Retry(_Part):
    """How often a failed phase is tried again, and after which errors.

    `limit` counts retries, not attempts. Without `on`, only errors that may pass
    by themselves are tried again.
    """

    limit: int = Field(default=0, ge=0)
    backoff: str = ""
    factor: float = Field(default=2.0, ge=1.0)
    max_backoff: str = ""
    on: list[str] = Field(default_factory=list)

    @model_validator(mode="before")
    @classmethod
    def _on_is_no_boolean(cls, data: Any) -> Any:
        # YAML reads the bare key `on` as true, and nobody means that here.
        if isinstance(data, dict) and "true" in data and "on" not in data:
            return {"on" if key == "true" else key: value for key, value in data.items()}
        return data


class Phase(_Part):
    """One call of a function."""

    func: str = ""
    name: str = ""
    objects: dict[str, ObjectReference] = Field(default_factory=dict)
    args: dict[str, Any] = Field(default_factory=dict)
    func_version: str = ""
    if_: Annotated[str | None, BeforeValidator(_as_text)] = Field(default=None, alias="if")
    timeout: str = ""
    retry: Retry | None = None


class Action(_Part):
    """What a Blueprint can do under one name: phases in order, and one that always comes last."""

    name: str = ""
    kind: str = ""
    config_map_names: list[str] = Field(default_factory=list)
    secret_names: list[str] = Field(default_factory=list)
    input_artifact_names: list[str] = Field(default_factory=list)
    output_artifacts: dict[str, Artifact] = Field(default_factory=dict)
    phases: list[Phase] = Field(default_factory=list)
    defer_phase: Phase | None = None

    def every_phase(self) -> Iterator[tuple[Path, Phase]]:
        """Go through the phases in the order they run, each with its path in the action."""
        for index, phase in enumerate(self.phases):
            yield ("phases", index), phase
        if self.defer_phase is not None:
            yield ("deferPhase",), self.defer_phase


class Metadata(_Part):
    """What an object is called, and what is noted on it."""

    name: str = ""
    namespace: str = ""
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)


class Blueprint(_Part):
    """Actions by their names."""

    api_version: str = ""
    kind: str = "Blueprint"
    metadata: Metadata = Field(default_factory=Metadata)
    actions: dict[str, Action] = Field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.metadata.name


@dataclass(frozen=True, slots=True)
class Found:
    """An object inside a document: which kind it is, and at which path it stands."""

    document: Document
    path: Path
    kind: str
    value: Mapping[str, Any]

    def place_of(self, path: Sequence[str | int]) -> Place:
        return self.document.place_of((*self.path, *path))

    def problem(self, path: Sequence[str | int], message: str) -> Problem:
        return self.document.problem((*self.path, *path), message)


@dataclass(frozen=True, slots=True)
class LocatedBlueprint:
    """A Blueprint, and where it was found."""

    found: Found
    blueprint: Blueprint


def objects_in(documents: Sequence[Document]) -> Iterator[Found]:
    """Find the objects of our group in documents, also those inside lists; skip all others."""
    for document in documents:
        yield from _objects_at(document, ())


def _objects_at(document: Document, path: Path) -> Iterator[Found]:
    node = document.node_at(path)
    value = node.value if node is not None else None
    if not isinstance(value, dict):
        return
    kind, group = value.get("kind"), _group_of(value.get("apiVersion"))
    if kind == "List" and isinstance(value.get("items"), list):
        for index in range(len(value["items"])):
            yield from _objects_at(document, (*path, "items", index))
    elif isinstance(kind, str) and (group == GROUP or (group == "" and kind in _OUR_KINDS)):
        yield Found(document, path, kind, value)


def _group_of(api_version: object) -> str | None:
    if api_version is None or api_version == "":
        return ""
    return api_version.partition("/")[0] if isinstance(api_version, str) else None


def parse_blueprint(found: Found) -> LocatedBlueprint:
    """Read a found object as a Blueprint, or refuse it with every problem in it."""
    return LocatedBlueprint(found, parse_model(Blueprint, found.document, found.path))


def blueprints_in(documents: Sequence[Document]) -> list[LocatedBlueprint]:
    """Read every Blueprint in documents, or refuse them with every problem in any of them."""
    read: list[LocatedBlueprint] = []
    problems: list[Problem] = []
    for found in objects_in(documents):
        if found.kind != "Blueprint":
            continue
        try:
            read.append(parse_blueprint(found))
        except InvalidDocument as error:
            problems += error.problems
    if problems:
        raise InvalidDocument(problems)
    return read


def only_blueprint(documents: Sequence[Document], file: str, name: str = "") -> LocatedBlueprint:
    """Give the one Blueprint of a file, or the one with a name; say what there is otherwise."""
    found = blueprints_in(documents)
    wanted = [each for each in found if not name or each.blueprint.name == name]
    if len(wanted) == 1:
        return wanted[0]
    if not found:
        kinds = sorted({_kind_in(each) for each in documents})
        there = f"; there is {', '.join(kinds)}" if kinds else ""
        raise InvalidDocument([Problem(file, 0, 0, "", f"No Blueprint in it{there}")])
    names = ", ".join(sorted(each.blueprint.name or "one without a name" for each in found))
    said = f"No Blueprint is called {name}" if name else "Several Blueprints in it; name one"
    raise InvalidDocument([Problem(file, 0, 0, "", f"{said}: there are {names}")])


def _kind_in(document: Document) -> str:
    value = document.value
    if not isinstance(value, dict):
        return kind_of(value)
    kind = value.get("kind")
    return kind if isinstance(kind, str) and kind else "a map without a kind"
