"""Models of Blueprints, and the reader that reports the place of each problem in the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple

from pydantic import BeforeValidator, Field, PrivateAttr, WithJsonSchema

from kanister_py.core.blueprints.options import OPTIONS_ANNOTATION, Options, read_annotation
from kanister_py.core.errors import InvalidDocument, InvalidVersion, Problem
from kanister_py.core.kube.objects import LocatedObject, Metadata, objects_at
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
    NamedMap,
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

# Objects of these kinds are read even without an apiVersion, so that its absence is reported.
_OUR_KINDS = frozenset({"Blueprint", "ActionSet"})


# Fields of both kinds of references.
_API_VERSION: Final[Any] = Field("", description="Version without the group, such as v1.")
_GROUP: Final[Any] = Field("", description="API group, such as apps; empty for the core group.")
_RESOURCE: Final[Any] = Field("", description="Plural name of the resource, such as secrets.")
_KIND: Final[Any] = Field("", description="Kind of the object, such as Secret.")
_NAME: Final[Any] = Field("", description="Name of the object.")
_NAMESPACE: Final[Any] = Field("", description="Namespace of the object.")


class ObjectReference(ApiModel):
    """Reference to a Kubernetes object by name."""

    api_version: str = _API_VERSION
    group: str = _GROUP
    resource: str = _RESOURCE
    kind: str = _KIND
    name: str = _NAME
    namespace: str = _NAMESPACE

    def as_dict(self) -> dict[str, str]:
        """Return all fields under their YAML names."""
        return self.model_dump(by_alias=True)


class TargetReference(ObjectReference):
    """Reference whose fields become parts of request paths; templates in Blueprints."""

    api_version: ApiVersionText = _API_VERSION
    group: GroupText = _GROUP
    resource: ResourceText = _RESOURCE
    kind: KindText = _KIND
    name: NameText = _NAME
    namespace: NamespaceText = _NAMESPACE


class Artifact(ApiModel):
    """Output of an action for later actions: key-value pairs, or the description of a snapshot."""

    key_value: TextMap = Field(default_factory=dict, description="Values under keys.")
    kopia_snapshot: str = Field("", description="Snapshot of Kopia, as JSON.")

    def as_dict(self) -> dict[str, Any]:
        """Return all fields under their YAML names."""
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
    objects: NamedMap[ObjectReference] = Field(
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
    """Action of a Blueprint: ordered phases, and an optional phase that always runs last."""

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
    options: Options = Field(
        default_factory=dict,
        description="Options of the action, by name. If there are none, all options are accepted "
        "and none is checked.",
    )
    output_artifacts: NamedMap[Artifact] = Field(
        default_factory=dict,
        description="Artifacts that the action leaves for later ones; their values are templates.",
    )
    phases: Items[Phase] = Field((), description="Calls of functions, in the order they run.")
    defer_phase: Phase | None = Field(
        None, description="Phase that runs last, even if an earlier one failed."
    )

    def every_phase(self) -> list[tuple[Path, Phase]]:
        """List the phases in execution order, with their paths in the action."""
        phases: list[tuple[Path, Phase]] = [
            (("phases", index), phase) for index, phase in enumerate(self.phases)
        ]
        if self.defer_phase is not None:
            phases.append((("deferPhase",), self.defer_phase))
        return phases


class Blueprint(ApiModel):
    """Named actions that can run on an application."""

    api_version: str = ""
    kind: str = "Blueprint"
    metadata: Metadata = Field(default_factory=Metadata)
    actions: NamedMap[Action] = Field(default_factory=dict, description="Actions by name.")
    _manifest: LocatedObject | None = PrivateAttr(None)

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def manifest(self) -> LocatedObject | None:
        """The object in its file, or None if the Blueprint was not read from a file."""
        return self._manifest

    def located_at(self, manifest: LocatedObject) -> Blueprint:
        """Return a copy of the Blueprint that records its place in a file."""
        located = self.model_copy()
        located._manifest = manifest  # noqa: SLF001 # an instance of this class
        return located


class LocatedBlueprint(NamedTuple):
    """Blueprint with its place in a file and its unknown keys.

    `refused` holds the paths of values that could not be read. The model has defaults in their
    place.
    """

    manifest: LocatedObject
    blueprint: Blueprint
    unknown_keys: tuple[UnknownKey, ...] = ()
    refused: frozenset[Path] = frozenset()
    broken: frozenset[Path] = frozenset()
    """All proper prefixes of the paths in `refused`."""

    def is_read(self, *path: str | int) -> bool:
        """Return whether the value at `path` was read. True if the document has no value there."""
        return not self.refused or not any(
            path[:length] in self.refused for length in range(len(path) + 1)
        )

    def is_whole(self, *path: str | int) -> bool:
        """Return whether the value at `path` and everything below it were read."""
        return self.is_read(*path) and path not in self.broken


def objects_in(documents: Sequence[Document]) -> Iterator[LocatedObject]:
    """Yield the objects of the group cr.kanister.io, including members of Lists."""
    for document in documents:
        yield from filter(is_of_our_group, objects_at(document, ()))


def is_of_our_group(manifest: LocatedObject) -> bool:
    return manifest.group == GROUP or (manifest.group == "" and manifest.kind in _OUR_KINDS)


def actions_of(manifest: LocatedObject) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the actions of an ActionSet that are mappings, with their indices."""
    actions = mapping_of(manifest.value.get("spec")).get("actions")
    for index, action in enumerate(actions if isinstance(actions, list) else ()):
        if isinstance(action, dict):
            yield index, action


def why_no_actions(actionset: Mapping[str, Any]) -> str:
    """Explain why an ActionSet has no actions, or return an empty string if it has some.

    The controller accepts such an ActionSet and completes it at once.
    """
    spec = actionset.get("spec")
    if isinstance(spec, Mapping):
        key, path, keys = "actions", "spec.actions", [*spec]
    else:
        key, path = "spec", "spec"
        keys = [name for name in actionset if name not in {"apiVersion", "kind", "metadata"}]
    if isinstance(spec, Mapping) and spec.get("actions"):
        return ""
    if key in keys:
        return f"{path} is empty"
    present = f"; found {', '.join(map(str, keys))}" if keys else ""
    return f"{path} is missing{present}"


def parse_blueprint(manifest: LocatedObject) -> LocatedBlueprint:
    """Parse an object as a Blueprint. Raises InvalidDocument with all its problems."""
    located, problems = read_partial_blueprint(manifest)
    version = located.blueprint.api_version
    # A file without an apiVersion can be run; lint reports that no API server accepts it.
    if version not in ("", GROUP_VERSION) and located.is_read("apiVersion"):
        problems.append(
            manifest.problem(("apiVersion",), f"Must be {GROUP_VERSION}, found {version!r}")
        )
    if problems:
        raise InvalidDocument(problems)
    return located


def read_partial_blueprint(manifest: LocatedObject) -> tuple[LocatedBlueprint, list[Problem]]:
    """Parse an object as a Blueprint as far as possible; also return the problems found."""
    partial = read_partly(Blueprint, manifest.document, manifest.path)
    refused = frozenset(partial.problems)
    blueprint, problems_of_options = _with_annotated_options(partial.value, manifest)
    blueprint = blueprint.located_at(manifest) if manifest.document.file else blueprint
    broken = frozenset(path[:length] for path in refused for length in range(len(path)))
    located = LocatedBlueprint(manifest, blueprint, partial.unknown_keys, refused, broken)
    return located, [*partial.problems.values(), *problems_of_options]


def _with_annotated_options(
    blueprint: Blueprint, manifest: LocatedObject
) -> tuple[Blueprint, list[Problem]]:
    """Add the options of the annotation to the actions without the field `options`."""
    text = blueprint.metadata.annotations.get(OPTIONS_ANNOTATION)
    if text is None:
        return blueprint, []
    declared, messages = read_annotation(text, blueprint.actions)
    actions = {
        name: action
        if action.options or name not in declared
        else action.model_copy(update={"options": declared[name]})
        for name, action in blueprint.actions.items()
    }
    path = ("metadata", "annotations", OPTIONS_ANNOTATION)
    problems = [manifest.problem(path, message) for message in messages]
    return blueprint.model_copy(update={"actions": actions}), problems


def blueprints_in(documents: Sequence[Document]) -> list[LocatedBlueprint]:
    """Parse every Blueprint in the documents. Raises InvalidDocument with the problems of all."""
    blueprints: list[LocatedBlueprint] = []
    problems: list[Problem] = []
    for manifest in objects_in(documents):
        if manifest.kind != "Blueprint":
            continue
        try:
            blueprints.append(parse_blueprint(manifest))
        except InvalidDocument as error:
            problems += error.problems
    if problems:
        raise InvalidDocument(problems)
    return blueprints


def only_blueprint(documents: Sequence[Document], file: str, name: str = "") -> LocatedBlueprint:
    """Return the only Blueprint of a file, or the one called `name`.

    Raises InvalidDocument that lists the objects in the file if there is no such Blueprint.
    """
    blueprints = blueprints_in(documents)
    matches = [located for located in blueprints if not name or located.blueprint.name == name]
    if len(matches) == 1:
        located = matches[0]
        if not located.blueprint.actions:
            raise InvalidDocument([located.manifest.problem(("actions",), _no_actions(located))])
        return located
    if not blueprints:
        kinds = sorted({_kind_in(document) for document in documents})
        contents = f"; found {', '.join(kinds)}" if kinds else ""
        raise InvalidDocument([Problem(file, 0, 0, "", f"The file has no Blueprint{contents}")])
    names = ", ".join(sorted(located.blueprint.name or "(unnamed)" for located in blueprints))
    if name:
        message = f"The file has no Blueprint called {name}; found {names}"
    else:
        message = f"The file has several Blueprints: {names}; choose one by name"
    raise InvalidDocument([Problem(file, 0, 0, "", message)])


def _no_actions(located: LocatedBlueprint) -> str:
    near = nearest("actions", [str(key.path[0]) for key in located.unknown_keys])
    hint = f"; did you mean `actions` instead of `{near[0]}`?" if near else ""
    return f"The Blueprint has no actions{hint}"


def _kind_in(document: Document) -> str:
    value = document.value
    if not isinstance(value, dict):
        return kind_of(value)
    kind = value.get("kind")
    if kind == "Blueprint":
        return f"a Blueprint of {value.get('apiVersion')!r}, which should be {GROUP_VERSION!r}"
    return kind if isinstance(kind, str) and kind else "a map without a kind"
