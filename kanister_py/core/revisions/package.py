"""Packages of functions: references to them, what their authors declare, and what they need."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kanister_py.core.errors import Unusable, UsageError
from kanister_py.core.kube.parts import mapping_of
from kanister_py.core.versions.semver import Version, parse_range, version_or_none
from kanister_py.core.yaml.documents import parse_documents


class InvalidPackageReference(Unusable, reason="InvalidPackageReference"):
    """A text does not say where a package is."""

    wording = (
        "{what!r} is no reference to a package: {why}; write it as "
        "registry.example.org/team/function-x:v1.0.0"
    )


class InvalidPackage(Unusable, reason="InvalidPackage"):
    """A file or an image is no package of a function."""

    wording = "{what} is no package of a function: {why}"


class DependencyUnresolved(UsageError, reason="DependencyUnresolved"):
    """A dependency is not there, and cannot be installed beside what is."""


META_GROUP: Final = "meta.pkg.crossplane.io"
COMPOSITION: Final = "composition"
DEFAULT_CAPABILITIES: Final = (COMPOSITION,)

_PATH: Final = re.compile(r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*")
_TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")


class PackageReference(NamedTuple):
    """Address of a package: a digest names its content, a tag what it is called today."""

    registry: str
    repository: str
    tag: str = ""
    digest: str = ""

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{self.source}{tag}{digest}"

    @property
    def source(self) -> str:
        """The repository with its registry: the same for all of a function's packages."""
        return f"{self.registry}/{self.repository}"

    @property
    def version(self) -> Version | None:
        """The version that the tag is, if it is one."""
        return version_or_none(self.tag)

    def pinned(self, digest: str) -> str:
        """Name the content itself, which cannot be moved."""
        return f"{self.source}@{digest}"


def is_tag(text: str) -> bool:
    return _TAG.fullmatch(text) is not None


def parse_package_reference(text: str) -> PackageReference:
    """Read where a package is, or say what would be a place."""
    rest, at, digest = text.strip().partition("@")
    registry, slash, path = rest.partition("/")
    name, colon, tag = path.partition(":")
    if not slash or not ("." in registry or ":" in registry or registry == "localhost"):
        raise InvalidPackageReference(text, "it names no registry")
    if not _PATH.fullmatch(name):
        raise InvalidPackageReference(text, f"{name!r} is no repository")
    if colon and not _TAG.fullmatch(tag):
        raise InvalidPackageReference(text, f"{tag!r} is no tag")
    if at and not _DIGEST.fullmatch(digest):
        raise InvalidPackageReference(text, f"{digest!r} is no sha256 digest")
    return PackageReference(registry, name, tag if colon or digest else "latest", digest)


class Dependency(NamedTuple):
    """Another package that one needs: of which kind, where, in which versions."""

    package: str
    versions: str = ""
    """A range, or a digest; empty for any."""
    kind: str = "Function"

    def __str__(self) -> str:
        return f"{self.package} {self.versions}".strip()


class FunctionPackage(NamedTuple):
    """A package as its author describes it."""

    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    capabilities: tuple[str, ...]
    dependencies: tuple[Dependency, ...] = ()
    constraint: str = ""
    """The releases of Crossplane it is made for."""


def has_capability(capabilities: Iterable[str], wanted: str) -> bool:
    """Say whether a package has a capability, however its author spells that."""
    plain = _plain(wanted)
    return any(_plain(each) == plain for each in capabilities)


def _plain(text: str) -> str:
    return "".join(each for each in text.lower() if each.isalnum())


def parse_function_package(text: bytes | str, where: str) -> FunctionPackage:
    """Parse the `package.yaml` of a package: exactly one of its objects describes a function."""
    found: list[Mapping[str, Any]] = []
    for document in parse_documents(text, where):
        value = document.value
        if not isinstance(value, dict):
            continue
        if str(value.get("apiVersion", "")).partition("/")[0] == META_GROUP:
            found.append(value)
    if len(found) != 1:
        raise InvalidPackage(where, f"it has {len(found)} objects of {META_GROUP}, not one")
    described = found[0]
    if described.get("kind") != "Function":
        raise InvalidPackage(where, f"it is a {described.get('kind')}, not a Function")
    metadata, spec = mapping_of(described.get("metadata")), mapping_of(described.get("spec"))
    name = metadata.get("name")
    if not isinstance(name, str) or not name:
        raise InvalidPackage(where, "metadata.name is missing")
    capabilities = spec.get("capabilities")
    return FunctionPackage(
        name,
        _texts(metadata.get("labels")),
        _texts(metadata.get("annotations")),
        tuple(str(each) for each in capabilities) if capabilities else DEFAULT_CAPABILITIES,
        tuple(_dependency(each) for each in spec.get("dependsOn") or ()),
        str(mapping_of(spec.get("crossplane")).get("version") or ""),
    )


def _texts(value: Any) -> dict[str, str]:
    return {key: each for key, each in mapping_of(value).items() if isinstance(each, str)}


def _dependency(value: Any) -> Dependency:
    """Read a dependency and its versions; packages know four ways to write one."""
    given = mapping_of(value)
    versions = str(given.get("version") or "")
    for key in ("function", "provider", "configuration"):
        if given.get(key):
            return Dependency(str(given[key]), versions, key.capitalize())
    return Dependency(
        str(given.get("package") or "?"), versions, str(given.get("kind") or "Function")
    )


# Dependencies


class Installed(NamedTuple):
    """A Function that is there."""

    name: str
    package: PackageReference


def source_of(dependency: Dependency) -> PackageReference:
    """Say in which repository a dependency is, or that it is in none."""
    return parse_package_reference(dependency.package)


def answers(dependency: Dependency, installed: Iterable[Installed]) -> Installed | None:
    """Find the Function that a package needs; one of another version is in the way.

    A tag that is no version, such as `latest`, answers whatever is asked for.
    """
    source = source_of(dependency).source
    found = next((each for each in installed if each.package.source == source), None)
    if found is None or not dependency.versions:
        return found
    if dependency.versions.startswith("sha256:"):
        fits = found.package.digest in ("", dependency.versions)
    else:
        version = found.package.version
        fits = version is None or version in parse_range(dependency.versions)
    if not fits:
        raise DependencyUnresolved(
            f"{dependency} is needed, and Function {found.name} is {found.package}; "
            "set its spec.package to a version that both can work with"
        )
    return found


def package_for(dependency: Dependency, tags: Sequence[str]) -> str:
    """Say which package to install: of the highest version that is asked for."""
    source = source_of(dependency).source
    if dependency.versions.startswith("sha256:"):
        return f"{source}@{dependency.versions}"
    wanted = parse_range(dependency.versions or ">=0.0.0")
    known = {version: tag for tag in tags if (version := version_or_none(tag)) is not None}
    fitting = [each for each in known if each in wanted]
    if not fitting:
        there = ", ".join(known[each] for each in sorted(known)[-5:]) or "none"
        raise DependencyUnresolved(
            f"{dependency} is needed, and {source} has no such version; the newest are {there}"
        )
    return f"{source}:{known[max(fitting)]}"


def name_for(package: str, taken: Iterable[str]) -> str:
    """Name the Function of a dependency after its repository, whole where its end is taken."""
    path = parse_package_reference(package).repository.lower()
    taken = set(taken)
    for name in (path.rpartition("/")[2], path.replace("/", "-")):
        plain = "".join(each if each.isalnum() else "-" for each in name).strip("-")[:63].strip("-")
        if plain not in taken:
            return plain
    raise DependencyUnresolved(
        f"{package} is needed, and another Function is called {plain}; install it by hand"
    )
