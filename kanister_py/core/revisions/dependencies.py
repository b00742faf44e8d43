"""Dependencies of packages: Functions that meet one, and packages to install for one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kanister_py.core.errors import UsageError
from kanister_py.core.revisions.package import (
    Dependency,
    PackageReference,
    parse_package_reference,
)
from kanister_py.core.versions.semver import parse_range, version_or_none
from kanister_py.values import NamedTuple


class DependencyUnresolved(UsageError):
    """A dependency is not there, and cannot be installed beside what is."""

    reason = "DependencyUnresolved"


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
