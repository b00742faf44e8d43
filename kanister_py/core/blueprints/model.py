"""Blueprints as models: what a file says, and where it says it.

Read by hand: every command that reads a Blueprint waits for this module, and a
library for models takes longer to load than all the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

from kanister_py.core.errors import InvalidDocument, InvalidVersion, Problem
from kanister_py.core.retries import Retry, read_retry
from kanister_py.core.yaml.documents import Document, Path, Place, kind_of, nearest
from kanister_py.core.yaml.reading import Reader, UnknownKey, mapping_of

T = TypeVar("T")

GROUP: Final = "cr.kanister.io"
GROUP_VERSION: Final = f"{GROUP}/v1alpha1"

# Taken for ours also without an apiVersion, which is then what is wrong with them.
_OUR_KINDS = frozenset({"Blueprint", "ActionSet"})
_EMPTY: Mapping[str, Any] = MappingProxyType({})


class ObjectReference(NamedTuple):
    """An object by its name. `api_version` is the version alone, the group stands apart."""

    api_version: str = ""
    group: str = ""
    resource: str = ""
    kind: str = ""
    name: str = ""
    namespace: str = ""

    def as_dict(self) -> dict[str, str]:
        """Give every field under its name in YAML."""
        return dict(zip(_REFERENCE_KEYS, self, strict=True))


_REFERENCE_KEYS = ("apiVersion", "group", "resource", "kind", "name", "namespace")


class Artifact(NamedTuple):
    """Output of an action for the next one: texts under keys, or a snapshot's description."""

    key_value: Mapping[str, str] = _EMPTY
    kopia_snapshot: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Give every field under its name in YAML."""
        return {"keyValue": dict(self.key_value), "kopiaSnapshot": self.kopia_snapshot}


class Phase(NamedTuple):
    """One call of a function."""

    func: str = ""
    name: str = ""
    objects: Mapping[str, ObjectReference] = _EMPTY
    args: Mapping[str, Any] = _EMPTY
    func_version: str = ""
    if_: str | None = None
    timeout: str = ""
    retry: Retry | None = None


class Action(NamedTuple):
    """Action of a Blueprint: phases in order, and one that always comes last."""

    name: str = ""
    kind: str = ""
    config_map_names: tuple[str, ...] = ()
    secret_names: tuple[str, ...] = ()
    input_artifact_names: tuple[str, ...] = ()
    output_artifacts: Mapping[str, Artifact] = _EMPTY
    phases: tuple[Phase, ...] = ()
    defer_phase: Phase | None = None

    def every_phase(self) -> list[tuple[Path, Phase]]:
        """List the phases in the order they run, each with its path in the action."""
        every: list[tuple[Path, Phase]] = [
            (("phases", index), phase) for index, phase in enumerate(self.phases)
        ]
        if self.defer_phase is not None:
            every.append((("deferPhase",), self.defer_phase))
        return every


class Metadata(NamedTuple):
    """Names, labels and annotations of an object, and the UID that tells it from its namesakes."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: Mapping[str, str] = _EMPTY
    annotations: Mapping[str, str] = _EMPTY


class Blueprint(NamedTuple):
    """Actions by their names."""

    api_version: str = ""
    kind: str = "Blueprint"
    metadata: Metadata = Metadata()
    actions: Mapping[str, Action] = _EMPTY
    found: Found | None = None
    """Where it stands, if that is a file that people can look into."""

    @property
    def name(self) -> str:
        return self.metadata.name


class Found(NamedTuple):
    """An object inside a document: which kind it is, and at which path it stands."""

    document: Document
    path: Path
    kind: str
    value: Mapping[str, Any]

    @property
    def group(self) -> str:
        return str(self.value.get("apiVersion") or "").partition("/")[0]

    def place_of(self, path: Sequence[str | int]) -> Place:
        return self.document.place_of((*self.path, *path))

    def problem(self, path: Sequence[str | int], message: str) -> Problem:
        return self.document.problem((*self.path, *path), message)

    def line_of(self, path: Sequence[str | int], line: int) -> int:
        """Say on which line of the file a line of the text at a path stands."""
        node = self.document.node_at((*self.path, *path))
        if node is None or node.style not in ("|", ">"):
            return self.place_of(path).line
        return node.place.line + max(line, 1)


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


def objects_at(document: Document, path: Path) -> Iterator[Found]:
    """Find the objects of any group at a path of a document, also those inside a list."""
    for place, value in maps_at(document, path):
        kind = value.get("kind")
        if isinstance(kind, str):
            yield Found(document, place, kind, value)


def maps_at(document: Document, path: Path) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Find the maps at a path of a document that may be objects, also those inside a list."""
    node = document.node_at(path)
    value = node.value if node is not None else None
    if not isinstance(value, dict):
        return
    if value.get("kind") == "List" and isinstance(value.get("items"), list):
        for index in range(len(value["items"])):
            yield from maps_at(document, (*path, "items", index))
    else:
        yield path, value


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
    """Read a found object as far as it is a Blueprint, and say what of it is not."""
    reader = ResourceReader()
    blueprint = reader.blueprint(found.value, ())
    refused = frozenset(path for path, _message in reader.problems)
    if found.document.file:
        blueprint = blueprint._replace(found=found)
    broken = frozenset(path[:length] for path in refused for length in range(len(path)))
    located = LocatedBlueprint(found, blueprint, tuple(reader.unknown), refused, broken)
    return located, reader.problems_in(found.document, found.path)


class ResourceReader(Reader):
    """Reader of Blueprints, and of what the resources of our group have in common."""

    def blueprint(self, value: Any, path: Path) -> Blueprint:
        data = self.mapping(value, path, ("apiVersion", "kind", "metadata", "actions"))
        return Blueprint(
            self.text(data, "apiVersion", path),
            self.text(data, "kind", path),
            self.metadata(data.get("metadata"), (*path, "metadata")),
            self.each(self._action, data, "actions", path),
        )

    def each(
        self, read: Callable[[Any, Path], T], data: Mapping[str, Any], key: str, path: Path
    ) -> Mapping[str, T]:
        """Read what stands under each name of a map under a key; often there is none."""
        value = data.get(key)
        if value is None:
            return _EMPTY
        found = self.mapping(value, (*path, key))
        return {name: read(each, (*path, key, name)) for name, each in found.items()}

    def metadata(self, value: Any, path: Path) -> Metadata:
        data = self.mapping(value, path, _METADATA_KEYS)
        own = self.all_texts(data, ("name", "generateName", "namespace", "uid"), path)
        name, generate_name, namespace, uid = own
        labels, annotations = (self.texts(data, key, path) for key in ("labels", "annotations"))
        return Metadata(name, generate_name, namespace, uid, labels, annotations)

    def _action(self, value: Any, path: Path) -> Action:
        data = self.mapping(value, path, _ACTION_KEYS)
        phases = self.items(data, "phases", path)
        deferred = data.get("deferPhase")
        return Action(
            self.text(data, "name", path),
            self.text(data, "kind", path),
            self.names(data, "configMapNames", path),
            self.names(data, "secretNames", path),
            self.names(data, "inputArtifactNames", path),
            self.each(self.artifact, data, "outputArtifacts", path),
            tuple(self._phase(each, (*path, "phases", index)) for index, each in enumerate(phases)),
            None if deferred is None else self._phase(deferred, (*path, "deferPhase")),
        )

    def _phase(self, value: Any, path: Path) -> Phase:
        data = self.mapping(value, path, _PHASE_KEYS)
        condition = data.get("if")
        return Phase(
            self.text(data, "func", path),
            self.text(data, "name", path),
            self.each(self.reference, data, "objects", path),
            self.mapping(data.get("args"), (*path, "args"), keeps_nulls=True),
            self._version(data, path),
            None if condition is None else self._condition(condition, (*path, "if")),
            self.text(data, "timeout", path),
            read_retry(self, data, path),
        )

    def _version(self, data: Mapping[str, Any], path: Path) -> str:
        value = data.get("funcVersion")
        if isinstance(value, bool) or not isinstance(value, int | float):
            return self.text(data, "funcVersion", path)
        from kanister_py.core.versions.semver import parse_request

        try:
            parse_request(str(value))
        except InvalidVersion as error:
            self.note((*path, "funcVersion"), f"Must be text: {error.message}")
        return ""

    def _condition(self, value: Any, path: Path) -> str:
        """Read a condition, which may also be given as `false` or `0`."""
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, str | int | float):
            return str(value)
        self.refuse(path, "text", value)
        return ""

    def reference(self, value: Any, path: Path) -> ObjectReference:
        data = self.mapping(value, path, _REFERENCE_KEYS)
        return ObjectReference(*self.all_texts(data, _REFERENCE_KEYS, path))

    def artifact(self, value: Any, path: Path) -> Artifact:
        data = self.mapping(value, path, ("keyValue", "kopiaSnapshot"))
        return Artifact(self.texts(data, "keyValue", path), self.text(data, "kopiaSnapshot", path))


# What stands in none of ours is the cluster's.
_METADATA_KEYS = (
    *("name", "generateName", "namespace", "uid", "labels", "annotations", "finalizers"),
    *("ownerReferences", "resourceVersion", "generation", "creationTimestamp", "selfLink"),
    *("deletionTimestamp", "deletionGracePeriodSeconds", "managedFields"),
)
_ACTION_KEYS = (
    *("name", "kind", "configMapNames", "secretNames", "inputArtifactNames"),
    *("outputArtifacts", "phases", "deferPhase"),
)
_PHASE_KEYS = ("func", "name", "objects", "args", "funcVersion", "if", "timeout", "retry")


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
