"""Installed functions: the revisions in manifests and those built in, and what runs each."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kanister_py.core.compositions.endpoints import builtin_endpoint, exec_endpoint, python_endpoint
from kanister_py.core.errors import (
    FunctionNotRegistered,
    FunctionVersionNotFound,
    FunctionVersionRemoved,
    InvalidDocument,
    InvalidVersion,
    Problem,
)
from kanister_py.core.kube.parts import kind_and_version, mapping_of, spec_of
from kanister_py.core.kube.quantities import InvalidQuantity, parse_size
from kanister_py.core.models import read_model
from kanister_py.core.notices import Notice, Severity
from kanister_py.core.registry.entries import (
    FunctionEntry,
    FunctionRevision,
    Origin,
    Registry,
    RegistryBuilder,
)
from kanister_py.core.revisions.functions import (
    ANSWER_LIMIT,
    PACKAGE_TAG,
    RENDER_RUNTIME,
    Runtime,
    is_marked_in_process,
    package_name,
    tag_of_revision,
)
from kanister_py.core.revisions.functions import RUNTIME as OWN_RUNTIME
from kanister_py.core.revisions.identity import PACKAGE_LABEL
from kanister_py.core.revisions.lifecycles import LIFECYCLE, with_lifecycles
from kanister_py.core.revisions.manifest import FunctionObject, FunctionRevisionObject
from kanister_py.core.revisions.substitutes import (
    OWNER,
    Substitute,
    choose_built_in,
    composition_families,
    own_package_function,
    repository_of,
    substitute_for,
    tag_of,
)
from kanister_py.core.versions.deprecation import Support
from kanister_py.core.versions.semver import Version, parse_version, version_or_none
from kanister_py.core.yaml.documents import Document, Path, shown

RUNTIME = RENDER_RUNTIME
TARGET = f"{RUNTIME}-development-target"
COMMAND = "kanister-py.io/runtime-command"
ENTRY_POINT = "kanister-py.io/runtime-entry-point"

DEFAULT_TARGET = "localhost:9443"
BUILT_IN_LEFT_OUT = "BuiltInLeftOut"
"""The reason of a notice that a function which is to run elsewhere is built in, too."""
SUBSTITUTED = "BuiltInStandsIn"
RUNTIMES = ("Development", "InProcess", "Process", "Python")
_CONTAINER = "Docker"


class Installed(NamedTuple):
    """The revisions that manifests name, with their endpoints, and what stood in for a package.

    `containers` are the functions that need one, which nobody starts here, and the problem
    that each of them is for a pipeline that calls it.
    """

    revisions: tuple[FunctionRevision, ...] = ()
    notices: tuple[Notice, ...] = ()
    containers: tuple[tuple[str, Problem], ...] = ()

    def registry(self) -> Registry[FunctionRevision]:
        by_function: dict[str, list[FunctionRevision]] = {}
        for each in self.revisions:
            by_function.setdefault(each.function, []).append(each)
        builder: RegistryBuilder[FunctionRevision] = RegistryBuilder()
        for revisions in by_function.values():
            builder.add(with_lifecycles(revisions))
        return builder.build()


def built_in(entries: Registry[FunctionEntry]) -> Installed:
    """Offer every composition function that is here, under its name and its upstream name."""
    return Installed(tuple(built_in_revisions(entries)))


def at_addresses(addresses: Mapping[str, str]) -> Installed:
    """Take functions that answer at addresses already."""
    return Installed(
        tuple(
            FunctionRevision(name, f"{name}-1", 1, is_healthy=True, endpoint=address)
            for name, address in addresses.items()
            if address
        )
    )


def installed(
    documents: Sequence[Document],
    entries: Registry[FunctionEntry],
    annotations: Mapping[str, str] | None = None,
    *,
    strict: bool = False,
) -> Installed:
    """Read Functions and FunctionRevisions; `annotations` override those of each.

    `strict` refuses to stand in for releases of others that the record does not name.
    """
    installer = _Installer(entries, annotations or {}, strict=strict)
    for document in documents:
        installer.install(document)
    if installer.problems:
        raise InvalidDocument(installer.problems)
    return Installed(
        tuple(installer.revisions), tuple(installer.notices), tuple(installer.containers)
    )


class _Installer:
    """The revisions that documents name, and every problem with them."""

    def __init__(
        self, entries: Registry[FunctionEntry], annotations: Mapping[str, str], *, strict: bool
    ) -> None:
        self._entries = entries
        self._is_strict = strict
        self._annotations = annotations
        self._seen: set[tuple[str, str]] = set()
        self.revisions: list[FunctionRevision] = []
        self.containers: list[tuple[str, Problem]] = []
        self.notices: list[Notice] = []
        self.problems: list[Problem] = []
        self._document = Document.of(None)

    def install(self, document: Document) -> None:
        """Read a Function or a FunctionRevision."""
        self._document = document
        data = mapping_of(document.value)
        kind = data.get("kind")
        is_ours = str(data.get("apiVersion")).startswith("pkg.crossplane.io/v1")
        if not is_ours or kind not in ("Function", "FunctionRevision"):
            found = kind_and_version(data)
            self._note((), f"Must be a Function of pkg.crossplane.io/v1, found {found}")
            return
        try:
            if kind == "Function":
                function = read_model(FunctionObject, document)
                revision, package = _only_revision(function), function.spec.package
                metadata = function.metadata
            else:
                read = read_model(FunctionRevisionObject, document)
                revision, package, metadata = self._revision(read), read.spec.image, read.metadata
        except InvalidDocument as error:
            self.problems += error.problems
            return
        if (revision.function, revision.name) in self._seen:
            self._note(("metadata", "name"), f"Another {kind} is called {metadata.name}")
        self._seen.add((revision.function, revision.name))
        annotations = {**metadata.annotations, **self._annotations}
        tag = tag_of(package) or annotations.get(PACKAGE_TAG, "")
        revision = revision._replace(
            version=version_or_none(tag), lifecycle=annotations.get(LIFECYCLE, "")
        )
        self._place(revision, package, tag, annotations)

    def _note(self, path: Path, message: str) -> None:
        self.problems.append(self._document.problem(path, message))

    def _revision(self, read: FunctionRevisionObject) -> FunctionRevision:
        labels = read.metadata.labels
        function = labels.get(PACKAGE_LABEL, "")
        if not function:
            path = ("metadata", "labels", PACKAGE_LABEL)
            self._note(path, "Must name the function that this is a revision of")
        return FunctionRevision(
            function,
            read.metadata.name,
            read.spec.revision,
            labels,
            read.spec.desired_state,
            is_healthy=True,
        )

    def _place(
        self, revision: FunctionRevision, package: str, tag: str, annotations: Mapping[str, str]
    ) -> None:
        """Give a revision its endpoint: by its annotations, else what is built in."""
        runtime = annotations.get(RUNTIME, "")
        path = ("metadata", "annotations", RUNTIME)
        repository = repository_of(package)
        is_ours = annotations.get(OWN_RUNTIME) == Runtime.IN_PROCESS
        other = None if is_ours else substitute_for(self._entries, repository, tag)
        own = ""
        if other is None:
            own = own_package_function(
                self._entries, revision.function, repository, is_ours=is_ours
            )
        if not runtime:
            runtime = "InProcess" if is_ours or own or other is not None else _CONTAINER
        if runtime == "Development":
            endpoint = annotations.get(TARGET) or DEFAULT_TARGET
            if own or other is not None:
                self._note_left_out(revision, own, other, endpoint)
        elif runtime == "InProcess":
            if own:
                revision = run_by_tag(revision, self._entries, own, tag)
                if revision.endpoint:
                    self._note_stand_in(revision, package, tag, None)
            elif other is not None:
                revision = run_by(revision, other.entry)
                self._note_stand_in(revision, package, tag, other)
            else:
                self._note(path, f"No function is built in for {package or 'it'}")
                return
            endpoint = revision.endpoint
        elif runtime == "Process":
            endpoint = self._command(annotations)
        elif runtime == "Python":
            endpoint = self._entry_point(annotations)
        elif runtime == _CONTAINER:
            image = annotations.get(f"{RUNTIME}-docker-image") or package or revision.function
            # What works in place of the container that a manifest asks for.
            message = (
                f"Needs a container of {image}, and none are started here; set {RUNTIME} to "
                f"Development and {TARGET} to where it listens, to Process and {COMMAND} to its "
                f"program, to Python and {ENTRY_POINT} to module:Class, or to InProcess where the "
                "function is built in"
            )
            problem = self._document.problem(path, message)
            self.containers.append((revision.function, problem))
            return
        else:
            self._note(path, f"Must be one of {', '.join(RUNTIMES)}, found {shown(runtime)}")
            return
        limit = self._answer_limit(annotations)
        self.revisions.append(revision._replace(endpoint=endpoint, answer_limit_bytes=limit))

    def _answer_limit(self, annotations: Mapping[str, str]) -> int:
        text = annotations.get(ANSWER_LIMIT)
        if not text:
            return 0
        try:
            return parse_size(text)
        except InvalidQuantity as error:
            self._note(("metadata", "annotations", ANSWER_LIMIT), str(error))
            return 0

    def _command(self, annotations: Mapping[str, str]) -> str:
        try:
            words = shlex.split(annotations.get(COMMAND, ""))
        except ValueError as error:
            self._note(("metadata", "annotations", COMMAND), f"No command: {error}")
            return ""
        if not words:
            message = "Must hold the command of a function that runs as a process"
            self._note(("metadata", "annotations", COMMAND), message)
        return exec_endpoint(words)

    def _entry_point(self, annotations: Mapping[str, str]) -> str:
        target = annotations.get(ENTRY_POINT, "")
        if not all(target.partition(":")):
            path = ("metadata", "annotations", ENTRY_POINT)
            self._note(path, f"Must be the place of a class, module:Class, found {shown(target)}")
        return python_endpoint(target)

    def _note_left_out(
        self, revision: FunctionRevision, own: str, other: Substitute | None, target: str
    ) -> None:
        entry = other.entry if other is not None else self._entries.family(own).default
        if entry is not None:
            message = (
                f"{entry.function} {entry.version} is built in; it takes the place of what listens "
                f"at {target} with the annotation {RUNTIME}=InProcess"
            )
            self._inform(BUILT_IN_LEFT_OUT, message, entry, function=revision.function)

    def _inform(self, reason: str, message: str, entry: FunctionEntry, **facts: str) -> None:
        version = str(entry.version)
        self.notices.append(Notice(reason, message, Severity.INFO, entry.function, version, facts))

    def _note_stand_in(
        self, revision: FunctionRevision, package: str, tag: str, other: Substitute | None
    ) -> None:
        entry = revision.entry
        assert entry is not None  # or nothing would stand in
        what = f"{package} ({revision.function})" if package else revision.function
        message = f"{entry.function} {entry.version}, which is built in, stands in for {what}"
        doubt = other.doubt(tag) if other is not None else ""
        if doubt:
            if self._is_strict:
                self._note(("spec", "package"), f"No version stands in: {doubt}")
            message += f"; {doubt}"
        self._inform(SUBSTITUTED, message, entry, package=package, function=revision.function)


def _only_revision(function: FunctionObject) -> FunctionRevision:
    metadata = function.metadata
    return FunctionRevision(
        metadata.name, f"{metadata.name}-1", 1, metadata.labels, is_healthy=True
    )


def substitutes_used(functions: Iterable[str]) -> Iterator[Notice]:
    """Note of the names in a composition which function of ours each stands for."""
    for function in dict.fromkeys(functions):
        name = function.removeprefix(f"{OWNER}-")
        if name != function:
            message = f"{name}, which is built in, stands in for {function}"
            yield Notice(SUBSTITUTED, message, Severity.INFO, name)


# Built-in functions


def run_by_tag(
    revision: FunctionRevision, entries: Registry[FunctionEntry], function: str, tag: str
) -> FunctionRevision:
    """Have the version that a tag of ours names run a revision; without one it is not well.

    What was removed keeps its place, so that the error for it can say so.
    """
    try:
        return run_by(revision, choose_built_in(entries, function, tag).chosen)
    except FunctionVersionRemoved as error:
        gone = entries.family(function).by_identity[parse_version(error.version)]
        return run_by(revision, gone)
    except (FunctionNotRegistered, FunctionVersionNotFound, InvalidVersion) as error:
        return _lost(revision, error.message)


def _lost(revision: FunctionRevision, why: str) -> FunctionRevision:
    return revision._replace(is_healthy=False, endpoint="", trouble=why, origin=Origin.BUILT_IN)


def run_by_package(
    revision: FunctionRevision,
    entries: Registry[FunctionEntry],
    obj: Mapping[str, Any],
    *,
    strict: bool = False,
) -> FunctionRevision:
    """Have a FunctionRevision of a cluster run by what its package means in this process."""
    image, tag = str(spec_of(obj).get("image") or ""), tag_of_revision(obj)
    other = (
        None if is_marked_in_process(obj) else substitute_for(entries, repository_of(image), tag)
    )
    if other is None:
        return run_by_tag(revision, entries, package_name(obj), tag)
    if strict and (doubt := other.doubt(tag)):
        return _lost(revision, doubt)
    return run_by(revision, other.entry)


def _place(entry: FunctionEntry, default: FunctionEntry | None) -> tuple[bool, bool, Version]:
    return entry is default, entry.support_at() is Support.SERVED, entry.version


def run_by(revision: FunctionRevision, entry: FunctionEntry) -> FunctionRevision:
    """Give a revision as run by a version that is here."""
    return revision.run_by(entry, builtin_endpoint(entry.function, str(entry.version)))


def built_in_revisions(entries: Registry[FunctionEntry]) -> Iterator[FunctionRevision]:
    """Offer every composition function that is here, under its name and its upstream name."""
    for family in composition_families(entries):
        # The highest number is what a step gets: the default, and of a range what a phase would.
        ordered = sorted(family, key=lambda each: _place(each, family.default))
        for number, entry in enumerate(ordered, 1):
            name = f"{entry.function}-{entry.version}"
            made = run_by(FunctionRevision(entry.function, name, number, is_healthy=True), entry)
            yield made
            prefixed = f"{OWNER}-{entry.function}"
            if prefixed not in entries:
                yield made._replace(function=prefixed, name=f"{OWNER}-{name}")
