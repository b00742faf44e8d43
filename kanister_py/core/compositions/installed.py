"""Installed functions: revisions in manifests and built-in ones, with their endpoints."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kanister_py.core.compositions.endpoints import builtin_endpoint, exec_endpoint, python_endpoint
from kanister_py.core.errors import (
    FunctionNotRegistered,
    FunctionVersionNotFound,
    FunctionVersionRemoved,
    InvalidDocument,
    InvalidVersion,
    Problem,
    UsageError,
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
"""Reason of the notice that a function is called at its own address, but is also built in."""
BUILT_IN_NOT_LISTED = "BuiltInNotListed"
"""Reason of the notice that the given Functions lack a function that is built in."""
SUBSTITUTED = "BuiltInStandsIn"
RUNTIMES = ("Development", "InProcess", "Process", "Python")
_CONTAINER = "Docker"


class Installed(NamedTuple):
    """Revisions with their endpoints, and notices about built-in functions that replace packages.

    `containers` lists functions that would need a container. None are started, so a pipeline
    that calls such a function fails with the given problem.
    """

    revisions: tuple[FunctionRevision, ...] = ()
    notices: tuple[Notice, ...] = ()
    containers: tuple[tuple[str, Problem], ...] = ()

    def registry(self) -> Registry[FunctionRevision]:
        by_function: dict[str, list[FunctionRevision]] = {}
        for revision in self.revisions:
            by_function.setdefault(revision.function, []).append(revision)
        builder: RegistryBuilder[FunctionRevision] = RegistryBuilder()
        for revisions in by_function.values():
            builder.add(with_lifecycles(revisions))
        return builder.build()


def built_in(entries: Registry[FunctionEntry]) -> Installed:
    """Return every built-in composition function, under its name and its upstream name."""
    return Installed(tuple(built_in_revisions(entries)))


def at_addresses(addresses: Mapping[str, str]) -> Installed:
    """Return functions that are already running at the given addresses."""
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
    load: Callable[[str], object] | None = None,
) -> Installed:
    """Read Functions and FunctionRevisions. `annotations` override those in the manifests.

    With `strict`, no built-in function replaces a package release that it is not recorded for.
    `load` loads the class behind a Python endpoint; its UsageErrors become problems.
    """
    installer = _Installer(entries, annotations or {}, strict=strict, load=load)
    for document in documents:
        installer.install(document)
    if installer.problems:
        raise InvalidDocument(installer.problems)
    return Installed(
        tuple(installer.revisions), tuple(installer.notices), tuple(installer.containers)
    )


class _Installer:
    """Collects the revisions in documents, and every problem with them."""

    def __init__(
        self,
        entries: Registry[FunctionEntry],
        annotations: Mapping[str, str],
        *,
        strict: bool,
        load: Callable[[str], object] | None,
    ) -> None:
        self._entries = entries
        self._load = load
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
            description = kind_and_version(data)
            self._note((), f"Must be a Function of pkg.crossplane.io/v1, found {description}")
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
            self._note(("metadata", "name"), f"Another {kind} has the name {metadata.name}")
        self._seen.add((revision.function, revision.name))
        annotations = {**metadata.annotations, **self._annotations}
        tag = tag_of(package) or annotations.get(PACKAGE_TAG, "")
        revision = revision._replace(
            version=version_or_none(tag), lifecycle=annotations.get(LIFECYCLE, "")
        )
        self._add(revision, package, tag, annotations)

    def _note(self, path: Path, message: str) -> None:
        self.problems.append(self._document.problem(path, message))

    def _revision(self, read: FunctionRevisionObject) -> FunctionRevision:
        labels = read.metadata.labels
        function = labels.get(PACKAGE_LABEL, "")
        if not function:
            path = ("metadata", "labels", PACKAGE_LABEL)
            self._note(path, "Must name the function of this revision")
        return FunctionRevision(
            function,
            read.metadata.name,
            read.spec.revision,
            labels,
            read.spec.desired_state,
            is_healthy=True,
        )

    def _add(
        self, revision: FunctionRevision, package: str, tag: str, annotations: Mapping[str, str]
    ) -> None:
        """Add a revision with its endpoint: from its annotations, else a built-in function."""
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
                    self._note_substitution(revision, package, tag, None)
            elif other is not None:
                revision = run_by(revision, other.entry)
                self._note_substitution(revision, package, tag, other)
            else:
                self._note(path, f"No built-in function can run {package or revision.function}")
                return
            endpoint = revision.endpoint
        elif runtime == "Process":
            endpoint = self._command(annotations)
        elif runtime == "Python":
            endpoint = self._entry_point(annotations)
        elif runtime == _CONTAINER:
            image = annotations.get(f"{RUNTIME}-docker-image") or package or revision.function
            # List the alternatives to the container that the manifest needs.
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
            self._note(("metadata", "annotations", COMMAND), f"Not a valid command: {error}")
            return ""
        if not words:
            message = "Must contain the command of a function that runs as a process"
            self._note(("metadata", "annotations", COMMAND), message)
        return exec_endpoint(words)

    def _entry_point(self, annotations: Mapping[str, str]) -> str:
        target = annotations.get(ENTRY_POINT, "")
        endpoint = python_endpoint(target)
        path = ("metadata", "annotations", ENTRY_POINT)
        if not all(target.partition(":")):
            message = "Must be the path of a class, module:Class or module:Class@VERSION, found"
            self._note(path, f"{message} {shown(target)}")
        elif self._load is not None:
            try:
                self._load(endpoint)
            except UsageError as error:
                self._note(path, error.message)
        return endpoint

    def _note_left_out(
        self, revision: FunctionRevision, own: str, other: Substitute | None, target: str
    ) -> None:
        entry = other.entry if other is not None else self._entries.family(own).default
        if entry is not None:
            message = (
                f"{entry.function} {entry.version} is built in; set the annotation "
                f"{RUNTIME}=InProcess to use it instead of the server at {target}"
            )
            self._inform(BUILT_IN_LEFT_OUT, message, entry, function=revision.function)

    def _inform(self, reason: str, message: str, entry: FunctionEntry, **facts: str) -> None:
        version = str(entry.version)
        self.notices.append(Notice(reason, message, Severity.INFO, entry.function, version, facts))

    def _note_substitution(
        self, revision: FunctionRevision, package: str, tag: str, other: Substitute | None
    ) -> None:
        entry = revision.entry
        assert entry is not None  # a replaced revision has one
        what = f"{package} ({revision.function})" if package else revision.function
        message = f"{entry.function} {entry.version}, which is built in, is used in place of {what}"
        doubt = other.doubt(tag) if other is not None else ""
        if doubt:
            if self._is_strict:
                self._note(("spec", "package"), f"No built-in version can be used: {doubt}")
            message += f"; {doubt}"
        self._inform(SUBSTITUTED, message, entry, package=package, function=revision.function)


def _only_revision(function: FunctionObject) -> FunctionRevision:
    metadata = function.metadata
    return FunctionRevision(
        metadata.name, f"{metadata.name}-1", 1, metadata.labels, is_healthy=True
    )


def substitutes_used(functions: Iterable[str]) -> Iterator[Notice]:
    """Yield a notice for every function that is called by its upstream name, but is built in."""
    for function in dict.fromkeys(functions):
        name = function.removeprefix(f"{OWNER}-")
        if name != function:
            message = f"{name}, which is built in, is used in place of {function}"
            yield Notice(SUBSTITUTED, message, Severity.INFO, name)


def built_in_not_listed(
    functions: Iterable[str], listed: Registry[FunctionRevision], entries: Registry[FunctionEntry]
) -> Iterator[Notice]:
    """Yield a notice for every function that is built in, but missing in a list of Functions."""
    names = {revision.function for revision in built_in_revisions(entries)}
    for function in dict.fromkeys(functions):
        if function in names and function not in listed:
            message = (
                f"{function} is built in, but the file of Functions does not list it; add a "
                f"Function {function} with the annotation {RUNTIME}=InProcess, or leave the file "
                "out if all functions are built in"
            )
            yield Notice(BUILT_IN_NOT_LISTED, message, Severity.INFO, function)


# Built-in functions


def run_by_tag(
    revision: FunctionRevision, entries: Registry[FunctionEntry], function: str, tag: str
) -> FunctionRevision:
    """Return a revision as run by the built-in version that a tag names.

    If there is no such version, the revision is unhealthy. A removed version is still assigned,
    so that calls fail with the error for removed versions.
    """
    try:
        return run_by(revision, choose_built_in(entries, function, tag).chosen)
    except FunctionVersionRemoved as error:
        gone = entries.family(function).by_identity[parse_version(error.version)]
        return run_by(revision, gone)
    except (FunctionNotRegistered, FunctionVersionNotFound, InvalidVersion) as error:
        return _unhealthy(revision, error.message)


def _unhealthy(revision: FunctionRevision, why: str) -> FunctionRevision:
    return revision._replace(is_healthy=False, endpoint="", trouble=why, origin=Origin.BUILT_IN)


def run_by_package(
    revision: FunctionRevision,
    entries: Registry[FunctionEntry],
    obj: Mapping[str, Any],
    *,
    strict: bool = False,
) -> FunctionRevision:
    """Return a revision as run by the built-in version for its package.

    `obj` is the FunctionRevision. With `strict`, the revision is unhealthy if the record does not
    list the release that the built-in version would replace.
    """
    image, tag = str(spec_of(obj).get("image") or ""), tag_of_revision(obj)
    other = (
        None if is_marked_in_process(obj) else substitute_for(entries, repository_of(image), tag)
    )
    if other is None:
        return run_by_tag(revision, entries, package_name(obj), tag)
    if strict and (doubt := other.doubt(tag)):
        return _unhealthy(revision, doubt)
    return run_by(revision, other.entry)


def _rank(entry: FunctionEntry, default: FunctionEntry | None) -> tuple[bool, bool, Version]:
    return entry is default, entry.support_at() is Support.SERVED, entry.version


def run_by(revision: FunctionRevision, entry: FunctionEntry) -> FunctionRevision:
    """Return a revision that is run by a built-in version."""
    return revision.run_by(entry, builtin_endpoint(entry.function, str(entry.version)))


def built_in_revisions(entries: Registry[FunctionEntry]) -> Iterator[FunctionRevision]:
    """Yield every built-in composition function, under its name and its upstream name."""
    for family in composition_families(entries):
        # Steps get the revision with the highest number, so the default version must come last.
        # Within a requested range, this order selects the same version as for phases.
        ordered = sorted(family, key=lambda entry: _rank(entry, family.default))
        for number, entry in enumerate(ordered, 1):
            name = f"{entry.function}-{entry.version}"
            revision = run_by(
                FunctionRevision(entry.function, name, number, is_healthy=True), entry
            )
            yield revision
            prefixed = f"{OWNER}-{entry.function}"
            if prefixed not in entries:
                yield revision._replace(function=prefixed, name=f"{OWNER}-{name}")
