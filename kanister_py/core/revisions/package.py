"""Packages of functions: references, metadata and dependencies."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kanister_py.core.errors import Unusable, UsageError
from kanister_py.core.kube.parts import mapping_of
from kanister_py.core.versions.semver import Version, parse_range, version_or_none
from kanister_py.core.yaml.documents import parse_documents


class InvalidPackageReference(Unusable, reason="InvalidPackageReference"):
    """A string is not a valid reference to a package."""

    wording = (
        "{what!r} is not a reference to a package: {why}; write it as "
        "registry.example.org/team/function-x:v1.0.0"
    )


class InvalidPackage(Unusable, reason="InvalidPackage"):
    """A file or image is not a package of a function."""

    wording = "{what} is not a package of a function: {why}"


class DependencyUnresolved(UsageError, reason="DependencyUnresolved"):
    """A dependency is missing, or conflicts with an installed package."""


META_GROUP: Final = "meta.pkg.crossplane.io"
COMPOSITION: Final = "composition"
DEFAULT_CAPABILITIES: Final = (COMPOSITION,)

_PATH: Final = re.compile(r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*")
_TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")


class PackageReference(NamedTuple):
    """Address of a package. A digest identifies its content, a tag may be moved."""

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
        """Repository with its registry, the same for all packages of a function."""
        return f"{self.registry}/{self.repository}"

    @property
    def version(self) -> Version | None:
        """Version in the tag, or None."""
        return version_or_none(self.tag)

    def pinned(self, digest: str) -> str:
        """Return the reference with a digest."""
        return f"{self.source}@{digest}"


def is_tag(text: str) -> bool:
    return _TAG.fullmatch(text) is not None


def parse_package_reference(text: str) -> PackageReference:
    """Parse a reference to a package.

    It must name a registry. Without a tag and a digest, the tag is `latest`.
    """
    name_and_tag, at, digest = text.strip().partition("@")
    registry, slash, path = name_and_tag.partition("/")
    name, colon, tag = path.partition(":")
    if not slash or not ("." in registry or ":" in registry or registry == "localhost"):
        raise InvalidPackageReference(text, "it has no registry")
    if not _PATH.fullmatch(name):
        raise InvalidPackageReference(text, f"{name!r} is not a valid repository")
    if colon and not _TAG.fullmatch(tag):
        raise InvalidPackageReference(text, f"{tag!r} is not a valid tag")
    if at and not _DIGEST.fullmatch(digest):
        raise InvalidPackageReference(text, f"{digest!r} is not a sha256 digest")
    return PackageReference(registry, name, tag if colon or digest else "latest", digest)


class Dependency(NamedTuple):
    """Dependency on another package: its kind, repository and versions."""

    package: str
    versions: str = ""
    """A range of versions or a digest; empty for any version."""
    kind: str = "Function"

    def __str__(self) -> str:
        return f"{self.package} {self.versions}".strip()


class FunctionPackage(NamedTuple):
    """Metadata of a package, as declared by its author."""

    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    capabilities: tuple[str, ...]
    dependencies: tuple[Dependency, ...] = ()
    constraint: str = ""
    """Range of Crossplane releases for which it is made."""


def has_capability(capabilities: Iterable[str], name: str) -> bool:
    """Return whether a package has a capability. Case and punctuation are ignored."""
    plain = _plain(name)
    return any(_plain(capability) == plain for capability in capabilities)


def _plain(text: str) -> str:
    return "".join(character for character in text.lower() if character.isalnum())


def parse_function_package(text: bytes | str, where: str) -> FunctionPackage:
    """Parse the `package.yaml` of a package, which must contain exactly one function."""
    functions: list[Mapping[str, Any]] = []
    for document in parse_documents(text, where):
        value = document.value
        if not isinstance(value, dict):
            continue
        if str(value.get("apiVersion", "")).partition("/")[0] == META_GROUP:
            functions.append(value)
    if len(functions) != 1:
        raise InvalidPackage(where, f"it has {len(functions)} objects of {META_GROUP}, not one")
    described = functions[0]
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
        tuple(str(capability) for capability in capabilities)
        if capabilities
        else DEFAULT_CAPABILITIES,
        tuple(_dependency(dependency) for dependency in spec.get("dependsOn") or ()),
        str(mapping_of(spec.get("crossplane")).get("version") or ""),
    )


def _texts(value: Any) -> dict[str, str]:
    return {key: text for key, text in mapping_of(value).items() if isinstance(text, str)}


def _dependency(value: Any) -> Dependency:
    """Parse a dependency: in `function`, `provider`, `configuration`, or `package` and `kind`."""
    fields = mapping_of(value)
    versions = str(fields.get("version") or "")
    for key in ("function", "provider", "configuration"):
        if fields.get(key):
            return Dependency(str(fields[key]), versions, key.capitalize())
    return Dependency(
        str(fields.get("package") or "?"), versions, str(fields.get("kind") or "Function")
    )


# Dependencies


class Installed(NamedTuple):
    """An installed Function."""

    name: str
    package: PackageReference


def source_of(dependency: Dependency) -> PackageReference:
    """Parse the repository of a dependency."""
    return parse_package_reference(dependency.package)


def find_installed(dependency: Dependency, installed: Iterable[Installed]) -> Installed | None:
    """Return the installed Function for a dependency, or None.

    Raises `DependencyUnresolved` if it is installed with another version. A tag that is not
    a version, such as `latest`, satisfies every range.
    """
    source = source_of(dependency).source
    match = next((function for function in installed if function.package.source == source), None)
    if match is None or not dependency.versions:
        return match
    if dependency.versions.startswith("sha256:"):
        fits = match.package.digest in ("", dependency.versions)
    else:
        version = match.package.version
        fits = version is None or version in parse_range(dependency.versions)
    if not fits:
        raise DependencyUnresolved(
            f"{dependency} is required, but Function {match.name} is {match.package}; "
            "set its spec.package to a version that satisfies both"
        )
    return match


def package_for(dependency: Dependency, tags: Sequence[str]) -> str:
    """Return the package to install: the highest version in the required range."""
    source = source_of(dependency).source
    if dependency.versions.startswith("sha256:"):
        return f"{source}@{dependency.versions}"
    required = parse_range(dependency.versions or ">=0.0.0")
    versions = {version: tag for tag in tags if (version := version_or_none(tag)) is not None}
    matching = [version for version in versions if version in required]
    if not matching:
        newest = ", ".join(versions[version] for version in sorted(versions)[-5:]) or "none"
        raise DependencyUnresolved(
            f"{dependency} is required, but {source} has no such version; the newest are {newest}"
        )
    return f"{source}:{versions[max(matching)]}"


def name_for(package: str, used_names: Iterable[str]) -> str:
    """Return a name for a dependency's Function, from the repository's last part or whole path."""
    path = parse_package_reference(package).repository.lower()
    used_names = set(used_names)
    for name in (path.rpartition("/")[2], path.replace("/", "-")):
        plain = (
            "".join(character if character.isalnum() else "-" for character in name)
            .strip("-")[:63]
            .strip("-")
        )
        if plain not in used_names:
            return plain
    raise DependencyUnresolved(
        f"{package} is required, but another Function has the name {plain}; install it manually"
    )
