"""Which revisions of functions do the manifests of a file stand for, and what runs each?"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kanister_py.core.compositions.endpoints import (
    builtin_endpoint,
    exec_endpoint,
    python_endpoint,
)
from kanister_py.core.errors import InvalidDocument, InvalidVersion
from kanister_py.core.notices import Notice, Severity
from kanister_py.core.objects.documents import Document
from kanister_py.core.objects.quantities import InvalidQuantity, parse_size
from kanister_py.core.objects.reading import Reader
from kanister_py.core.registry.entries import (
    DesiredState,
    FunctionEntry,
    FunctionKind,
    FunctionRevision,
    Registry,
    RegistryBuilder,
)
from kanister_py.core.revisions.functions import ANSWER_LIMIT
from kanister_py.core.revisions.identity import PACKAGE_LABEL
from kanister_py.core.versions.semver import Version, parse_version

RUNTIME = "render.crossplane.io/runtime"
TARGET = "render.crossplane.io/runtime-development-target"
COMMAND = "kanister-py.io/runtime-command"
ENTRY_POINT = "kanister-py.io/runtime-entry-point"

DEFAULT_TARGET = "localhost:9443"
BUILT_IN_LEFT_OUT = "BuiltInLeftOut"
"""Why it is said that a function is built in: it is to run elsewhere. Of use if it does not."""
RUNTIMES = ("Development", "InProcess", "Process", "Python")
_CONTAINER = "Docker"
_OWNER = "crossplane-contrib"


class Installed(NamedTuple):
    """The revisions that manifests name, with their endpoints, and what stood in for a package."""

    revisions: tuple[FunctionRevision, ...] = ()
    notices: tuple[Notice, ...] = ()

    def registry(self) -> Registry[FunctionRevision]:
        by_function: dict[str, list[FunctionRevision]] = {}
        for each in self.revisions:
            by_function.setdefault(each.function, []).append(each)
        builder: RegistryBuilder[FunctionRevision] = RegistryBuilder()
        for revisions in by_function.values():
            builder.add(revisions)
        return builder.build()


def built_in(entries: Registry[FunctionEntry]) -> Installed:
    """Offer every composition function that is here, under its name and its upstream name."""
    revisions: list[FunctionRevision] = []
    for family in entries:
        if family.candidates[0].kind is not FunctionKind.COMPOSITION:
            continue
        # The default must be what a step gets that names no version: the highest number.
        ordered = sorted(family, key=lambda each: (each is family.default, each.rank))
        for number, entry in enumerate(ordered, 1):
            made = _built_in_revision(entry, number)
            revisions.append(made)
            prefixed = f"{_OWNER}-{entry.function}"
            if prefixed not in entries:
                name = f"{_OWNER}-{made.name}"
                revisions.append(made._replace(function=prefixed, name=name))
    return Installed(tuple(revisions))


def at_addresses(addresses: Mapping[str, str]) -> Installed:
    """Take functions that answer at addresses already."""
    return Installed(
        tuple(
            FunctionRevision(name, f"{name}-1", 1, is_healthy=True, endpoint=address)
            for name, address in addresses.items()
            if address
        )
    )


def _built_in_revision(entry: FunctionEntry, number: int) -> FunctionRevision:
    version = str(entry.version)
    return FunctionRevision(
        entry.function,
        f"{entry.function}-{version}",
        number,
        is_healthy=True,
        endpoint=builtin_endpoint(entry.function, version),
        version=entry.version,
    )


def installed(
    documents: Sequence[Document],
    entries: Registry[FunctionEntry],
    annotations: Mapping[str, str] | None = None,
) -> Installed:
    """Read Functions and FunctionRevisions; `annotations` override those of each."""
    reader = _Reader(entries, annotations or {})
    problems = []
    for document in documents:
        before = len(reader.problems)
        reader.read(document.value)
        problems += [document.problem(*each) for each in reader.problems[before:]]
    if problems:
        raise InvalidDocument(problems)
    return Installed(tuple(reader.revisions), tuple(reader.notices))


class _Reader(Reader):
    def __init__(self, entries: Registry[FunctionEntry], annotations: Mapping[str, str]) -> None:
        super().__init__()
        self._entries = entries
        self._annotations = annotations
        self._seen: set[tuple[str, str]] = set()
        self.revisions: list[FunctionRevision] = []
        self.notices: list[Notice] = []

    def read(self, value: Any) -> None:
        data = self.mapping(value, ())
        kind = data.get("kind")
        is_ours = str(data.get("apiVersion")).startswith("pkg.crossplane.io/v1")
        if not is_ours or kind not in ("Function", "FunctionRevision"):
            found = f"{kind} of {data.get('apiVersion')}"
            self.problems.append(((), f"Must be a Function of pkg.crossplane.io/v1, found {found}"))
            return
        metadata = self.mapping(data.get("metadata"), ("metadata",))
        name = self.text(metadata, "name", ("metadata",))
        spec = self.mapping(data.get("spec"), ("spec",))
        labels = self.texts(metadata, "labels", ("metadata",))
        given = {**self.texts(metadata, "annotations", ("metadata",)), **self._annotations}
        key = "image" if kind == "FunctionRevision" else "package"
        package = self.text(spec, key, ("spec",))
        if not name:
            self.problems.append((("metadata", "name"), "Must be given"))
        if kind == "FunctionRevision":
            revision = self._revision(name, labels, spec)
        else:
            revision = FunctionRevision(name, f"{name}-1", 1, labels, is_healthy=True)
        if (revision.function, revision.name) in self._seen:
            self.problems.append((("metadata", "name"), f"Another {kind} is called {name}"))
        self._seen.add((revision.function, revision.name))
        self._place(revision._replace(version=_tag_of(package)), package, given)

    def _revision(
        self, name: str, labels: Mapping[str, str], spec: Mapping[str, Any]
    ) -> FunctionRevision:
        function = labels.get(PACKAGE_LABEL, "")
        if not function:
            path = ("metadata", "labels", PACKAGE_LABEL)
            self.problems.append((path, "Must name the function that this is a revision of"))
        state = self.text(spec, "desiredState", ("spec",)) or "Inactive"
        if state not in ("Active", "Inactive"):
            self.refuse(("spec", "desiredState"), "Active or Inactive", state)
            state = "Inactive"
        number = self.number(spec, "revision", ("spec",), 1, least=0, whole=True)
        return FunctionRevision(
            function, name, int(number), labels, DesiredState(state), is_healthy=True
        )

    def _place(
        self, revision: FunctionRevision, package: str, annotations: Mapping[str, str]
    ) -> None:
        """Say what runs a revision: what its annotations say, else what is built in."""
        runtime = annotations.get(RUNTIME, "")
        path = ("metadata", "annotations", RUNTIME)
        entry = self._stand_in(revision.function, package)
        if not runtime:
            runtime = "InProcess" if entry is not None else _CONTAINER
        if runtime == "Development":
            endpoint = annotations.get(TARGET) or DEFAULT_TARGET
            if entry is not None:
                self._say_left_out(revision, entry, endpoint)
        elif runtime == "InProcess":
            if entry is None:
                self.problems.append((path, f"No function is built in for {package or 'it'}"))
                return
            endpoint = builtin_endpoint(entry.function, str(entry.version))
            revision = revision._replace(version=revision.version or entry.version)
            self._say_stand_in(revision, entry, package)
        elif runtime == "Process":
            endpoint = self._command(annotations)
        elif runtime == "Python":
            endpoint = self._entry_point(annotations)
        elif runtime == _CONTAINER:
            image = annotations.get(f"{RUNTIME}-docker-image") or package
            self.problems.append((path, _no_container(image or revision.function)))
            return
        else:
            self.refuse(path, f"one of {', '.join(RUNTIMES)}", runtime)
            return
        limit = self._answer_limit(annotations)
        self.revisions.append(revision._replace(endpoint=endpoint, answer_limit_bytes=limit))

    def _answer_limit(self, annotations: Mapping[str, str]) -> int:
        try:
            return parse_size(annotations.get(ANSWER_LIMIT) or "0")
        except InvalidQuantity as error:
            self.problems.append((("metadata", "annotations", ANSWER_LIMIT), str(error)))
            return 0

    def _command(self, annotations: Mapping[str, str]) -> str:
        try:
            words = shlex.split(annotations.get(COMMAND, ""))
        except ValueError as error:
            self.problems.append((("metadata", "annotations", COMMAND), f"No command: {error}"))
            return ""
        if not words:
            said = "Must hold the command of a function that runs as a process"
            self.problems.append((("metadata", "annotations", COMMAND), said))
        return exec_endpoint(words)

    def _entry_point(self, annotations: Mapping[str, str]) -> str:
        target = annotations.get(ENTRY_POINT, "")
        module, colon, name = target.partition(":")
        if not (module and colon and name):
            path = ("metadata", "annotations", ENTRY_POINT)
            self.refuse(path, "the place of a class, module:Class", target)
        return python_endpoint(target)

    def _stand_in(self, function: str, package: str) -> FunctionEntry | None:
        path = repository_of(package)
        name = path.removeprefix(f"{_OWNER}/") if package else function
        if "/" in name:
            name = path.removeprefix("kanister-py/")
        if name not in self._entries:
            return None
        family = self._entries.family(name)
        entry = family.default or family.candidates[0]
        return entry if entry.kind is FunctionKind.COMPOSITION else None

    def _say_left_out(self, revision: FunctionRevision, entry: FunctionEntry, target: str) -> None:
        self.notices.append(
            Notice(
                BUILT_IN_LEFT_OUT,
                f"{entry.function} {entry.version} is built in; it takes the place of what listens "
                f"at {target} with the annotation {RUNTIME}=InProcess",
                Severity.INFO,
                entry.function,
                str(entry.version),
                {"function": revision.function},
            )
        )

    def _say_stand_in(self, revision: FunctionRevision, entry: FunctionEntry, package: str) -> None:
        what = f"{package} ({revision.function})" if package else revision.function
        self.notices.append(
            Notice(
                "BuiltInStandsIn",
                f"{entry.function} {entry.version}, which is built in, stands in for {what}",
                Severity.INFO,
                entry.function,
                str(entry.version),
                {"package": package, "function": revision.function},
            )
        )


def repository_of(package: str) -> str:
    """Give the path of a package without its host, tag and digest."""
    path = package.partition("@")[0]
    head, slash, last = path.rpartition("/")
    path = f"{head}{slash}{last.partition(':')[0]}"
    host, slash, rest = path.partition("/")
    is_host = "." in host or ":" in host or host == "localhost"
    return rest if slash and is_host else path


def _tag_of(package: str) -> Version | None:
    tag = package.partition("@")[0].rpartition("/")[2].partition(":")[2]
    if not tag:
        return None
    try:
        return parse_version(tag)
    except InvalidVersion:
        return None


def stand_ins_used(functions: Iterable[str]) -> Iterator[Notice]:
    """Say of the names that a composition gives which function of ours each stands for."""
    for function in dict.fromkeys(functions):
        name = function.removeprefix(f"{_OWNER}-")
        if name != function:
            message = f"{name}, which is built in, stands in for {function}"
            yield Notice("BuiltInStandsIn", message, Severity.INFO, name)


def _no_container(image: str) -> str:
    """Say what works in place of the container that a manifest asks for."""
    return (
        f"Needs a container of {image}, and none are started here; set {RUNTIME} to Development "
        f"and {TARGET} to where it listens, to Process and {COMMAND} to its program, to Python "
        f"and {ENTRY_POINT} to module:Class, or to InProcess where the function is built in"
    )
