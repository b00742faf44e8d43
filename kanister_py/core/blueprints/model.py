"""Blueprints: their models, and where in a file each part is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple

from pydantic import BeforeValidator, Field, PrivateAttr, WithJsonSchema

from kanister_py.core.errors import InvalidDocument, InvalidVersion, Problem
from kanister_py.core.kube.objects import Found, Metadata, objects_at
from kanister_py.core.kube.parts import mapping_of
from kanister_py.core.kube.request_paths import (
    ApiVersionText,
    GroupText,
    KindText,
    NamespaceText,
    NameText,
    ResourceText,
)
from kanister_py.core.models import (
    ApiModel,
    DurationText,
    Items,
    Named,
    TextMap,
    UnknownKey,
    read_partly,
    refusal,
)
from kanister_py.core.retries import Retry
from kanister_py.core.versions.semver import parse_request
from kanister_py.core.yaml.documents import Document, Path, kind_of, nearest

GROUP: Final = "cr.kanister.io"
GROUP_VERSION: Final = f"{GROUP}/v1alpha1"

# Taken for ours also without an apiVersion, which is then what is wrong with them.
_OUR_KINDS = frozenset({"Blueprint", "ActionSet"})


class ObjectReference(ApiModel):
    """Reference to an object of a cluster by its name."""

    api_version: str = Field("", description="Version without the group, such as v1.")
    group: str = Field("", description="API group, such as apps; empty for the core group.")
    resource: str = Field("", description="Plural name of the resource, such as secrets.")
    kind: str = Field("", description="Kind of the object, such as Secret.")
    name: str = Field("", description="Name of the object.")
    namespace: str = Field("", description="Namespace of the object.")

    def as_dict(self) -> dict[str, str]:
        """Return every field under its name in YAML."""
        return self.model_dump(by_alias=True)


class TargetReference(ObjectReference):
    """Reference whose fields become parts of request paths; in Blueprints, they are templates."""

    api_version: ApiVersionText = Field("", description="Version without the group, such as v1.")
    group: GroupText = Field("", description="API group, such as apps; empty for the core group.")
    resource: ResourceText = Field("", description="Plural name of the resource, such as secrets.")
    kind: KindText = Field("", description="Kind of the object, such as Secret.")
    name: NameText = Field("", description="Name of the object.")
    namespace: NamespaceText = Field("", description="Namespace of the object.")


class Artifact(ApiModel):
    """Output of an action for later actions: texts under keys, or a snapshot's description."""

    key_value: TextMap = Field(default_factory=dict, description="Values under keys.")
    kopia_snapshot: str = Field("", description="Snapshot of Kopia, as JSON.")

    def as_dict(self) -> dict[str, Any]:
        """Return every field under its name in YAML."""
        return self.model_dump(by_alias=True)


def _version_as_text(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    try:
        parse_request(str(value))
    except InvalidVersion as error:
        raise refusal(f"Must be text: {error.message}") from None
    return ""


def _condition_as_text(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


Condition = Annotated[
    str,
    BeforeValidator(_condition_as_text),
    WithJsonSchema({"type": ["string", "boolean", "number"]}),
]


class Phase(ApiModel):
    """One call of a function."""

    func: str = Field("", description="Name of the function to call.")
    name: str = Field("", description="Name of the phase, and the key of its output in .Phases.")
    objects: Named[ObjectReference] = Field(
        default_factory=dict,
        description="Secrets and ConfigMaps that the templates of the phase can use, by name.",
    )
    args: dict[str, Any] = Field(
        default_factory=dict, description="Arguments of the function; texts in them are templates."
    )
    func_version: Annotated[str, BeforeValidator(_version_as_text)] = Field(
        "",
        description="Version of the function, or a range of versions such as ~0.1; the stable "
        "version if left out.",
    )
    if_: Condition | None = Field(
        None,
        alias="if",
        description="Template; the phase is skipped if it renders to nothing, false, 0 or "
        "the text of a missing value.",
    )
    timeout: DurationText = Field(
        "", description="Longest time that the phase may take, such as 30m."
    )
    retry: Retry | None = Field(None, description="When and how often a failed phase is retried.")


class Action(ApiModel):
    """Action of a Blueprint: phases in order, and one that always comes last."""

    name: str = Field("", description="Name of the action. Its key in the map counts.")
    kind: str = Field("", description="Kind of object that the action is meant for.")
    config_map_names: Items[str] = Field(
        (), description="Names under which an ActionSet must give ConfigMaps."
    )
    secret_names: Items[str] = Field(
        (), description="Names under which an ActionSet must give Secrets."
    )
    input_artifact_names: Items[str] = Field(
        (), description="Names under which an ActionSet must give artifacts of earlier actions."
    )
    output_artifacts: Named[Artifact] = Field(
        default_factory=dict,
        description="Artifacts that the action leaves for later ones; their values are templates.",
    )
    phases: Items[Phase] = Field((), description="Calls of functions, in the order they run.")
    defer_phase: Phase | None = Field(
        None, description="Phase that runs last, even if an earlier one failed."
    )

    def every_phase(self) -> list[tuple[Path, Phase]]:
        """List the phases in the order they run, each with its path in the action."""
        every: list[tuple[Path, Phase]] = [
            (("phases", index), phase) for index, phase in enumerate(self.phases)
        ]
        if self.defer_phase is not None:
            every.append((("deferPhase",), self.defer_phase))
        return every


class Blueprint(ApiModel):
    """Actions that can be run on an application, by name."""

    api_version: str = ""
    kind: str = "Blueprint"
    metadata: Metadata = Field(default_factory=Metadata)
    actions: Named[Action] = Field(default_factory=dict, description="Actions by name.")
    _found: Found | None = PrivateAttr(None)

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def found(self) -> Found | None:
        """The file that holds the Blueprint, if people can open it."""
        return self._found

    def located_at(self, found: Found) -> Blueprint:
        """Return the same Blueprint with the file that holds it."""
        located = self.model_copy()
        located._found = found  # noqa: SLF001 # an instance of this class
        return located


class LocatedBlueprint(NamedTuple):
    """A Blueprint, where it was found, and which of its keys are not known.

    What stood at a path in `refused` could not be read, and looks as if it were left out.
    """

    found: Found
    blueprint: Blueprint
    unknown_keys: tuple[UnknownKey, ...] = ()
    refused: frozenset[Path] = frozenset()
    broken: frozenset[Path] = frozenset()
    """Every path that leads to one in `refused`."""

    def is_read(self, *path: str | int) -> bool:
        """Say whether what stands at a path was read, if anything stands there."""
        return not self.refused or not any(
            path[:length] in self.refused for length in range(len(path) + 1)
        )

    def is_whole(self, *path: str | int) -> bool:
        """Say whether everything at a path and below it was read."""
        return self.is_read(*path) and path not in self.broken


def objects_in(documents: Sequence[Document]) -> Iterator[Found]:
    """Find the objects of our group in documents, also those inside lists; skip all others."""
    for document in documents:
        yield from filter(is_of_our_group, objects_at(document, ()))


def is_of_our_group(found: Found) -> bool:
    return found.group == GROUP or (found.group == "" and found.kind in _OUR_KINDS)


def actions_of(found: Found) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Give the actions of an ActionSet that are maps, each with its index."""
    actions = mapping_of(found.value.get("spec")).get("actions")
    for index, given in enumerate(actions if isinstance(actions, list) else ()):
        if isinstance(given, dict):
            yield index, given


def why_without_actions(actionset: Mapping[str, Any]) -> str:
    """Say what an ActionSet that names no actions has instead; nothing if it names some.

    To a controller that is no mistake: it completes such an ActionSet at once.
    """
    spec = actionset.get("spec")
    if isinstance(spec, Mapping):
        wanted, path, there = "actions", "spec.actions", [*spec]
    else:
        wanted, path = "spec", "spec"
        there = [key for key in actionset if key not in {"apiVersion", "kind", "metadata"}]
    if isinstance(spec, Mapping) and spec.get("actions"):
        return ""
    if wanted in there:
        return f"{path} is empty"
    found = f"; there is {', '.join(map(str, there))}" if there else ""
    return f"{path} is missing{found}"


def parse_blueprint(found: Found) -> LocatedBlueprint:
    """Read a found object as a Blueprint, or refuse it with every problem in it."""
    located, problems = read_what_can_be_read(found)
    version = located.blueprint.api_version
    # Without one, it is at hand as a file, and lint says that no API server takes it.
    if version not in ("", GROUP_VERSION) and located.is_read("apiVersion"):
        problems.append(
            found.problem(("apiVersion",), f"Must be {GROUP_VERSION}, found {version!r}")
        )
    if problems:
        raise InvalidDocument(problems)
    return located


def read_what_can_be_read(found: Found) -> tuple[LocatedBlueprint, list[Problem]]:
    """Read an object as far as it is a Blueprint, and return the problems of the rest."""
    partial = read_partly(Blueprint, found.document, found.path)
    refused = frozenset(partial.problems)
    blueprint = partial.value.located_at(found) if found.document.file else partial.value
    broken = frozenset(path[:length] for path in refused for length in range(len(path)))
    located = LocatedBlueprint(found, blueprint, partial.unknown_keys, refused, broken)
    return located, list(partial.problems.values())


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
        if not wanted[0].blueprint.actions:
            raise InvalidDocument([wanted[0].found.problem(("actions",), _no_actions(wanted[0]))])
        return wanted[0]
    if not found:
        kinds = sorted({_kind_in(each) for each in documents})
        there = f"; there is {', '.join(kinds)}" if kinds else ""
        raise InvalidDocument([Problem(file, 0, 0, "", f"No Blueprint in it{there}")])
    names = ", ".join(sorted(each.blueprint.name or "one without a name" for each in found))
    why = f"No Blueprint is called {name}" if name else "Several Blueprints in it; name one"
    raise InvalidDocument([Problem(file, 0, 0, "", f"{why}: there are {names}")])


def _no_actions(located: LocatedBlueprint) -> str:
    near = nearest("actions", [str(each.path[0]) for each in located.unknown_keys])
    return f"The Blueprint has no actions{f'; is {near[0]} meant for them?' if near else ''}"


def _kind_in(document: Document) -> str:
    value = document.value
    if not isinstance(value, dict):
        return kind_of(value)
    kind = value.get("kind")
    if kind == "Blueprint":
        return f"a Blueprint of {value.get('apiVersion')!r}, which should be {GROUP_VERSION!r}"
    return kind if isinstance(kind, str) and kind else "a map without a kind"
