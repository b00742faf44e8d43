"""The flag `--target-release`, and the releases of packages that it names."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kanister_py.cli.parser import repeated, suggestion_or_list
from kanister_py.core.errors import InvalidVersion, UsageError
from kanister_py.core.registry.entries import FunctionEntry, Registry, Source
from kanister_py.core.versions.semver import Version, parse_version

OURS = "kanister-py"


class Target(NamedTuple):
    """A release of a package with functions."""

    package: str
    release: Version

    def __str__(self) -> str:
        bare = self.release.bare
        return bare if self.package == OURS else f"{self.package} {bare}"


def add_target_release(parser: argparse.ArgumentParser) -> None:
    """Add `--target-release R`, or `--target-release NAME=R` for a plugin."""
    repeated(
        parser,
        "--target-release",
        metavar="R",
        type=parse_target,
        help="check for this release of kanister-py instead of the installed one; "
        "NAME=R for the package of a plugin; may be repeated",
    )


def parse_target(text: str) -> Target:
    package, has_name, release = text.rpartition("=")
    if has_name and not package:
        raise argparse.ArgumentTypeError(f"write R or NAME=R, found {text!r}")
    try:
        return Target(package or OURS, parse_version(release))
    except InvalidVersion as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def releases_at(
    targets: Sequence[Target], registry: Registry[FunctionEntry]
) -> Mapping[str, Version]:
    """Return the target release of each package; raise for an unknown package."""
    sources = sources_of(registry)
    packages = {_folded(name): name for name in (OURS, *sources)}
    at = {}
    for target in targets:
        name = packages.get(_folded(target.package))
        if name is None:
            hint = suggestion_or_list(target.package, sorted(packages.values()))
            raise UsageError(
                f"No package {target.package} with functions is installed{hint}",
                reason="UnknownDistribution",
            )
        at[name] = target.release
    return at


def unplanned(
    targets: Iterable[Target], registry: Registry[FunctionEntry]
) -> Iterable[tuple[Target, Version]]:
    """Find target releases that are later than all releases in the package's record."""
    sources = {_folded(name): source for name, source in sources_of(registry).items()}
    for target in targets:
        source = sources.get(_folded(target.package))
        if source is not None and source.releases:
            last = source.releases[-1].version
            if target.release > last:
                yield target, last


def sources_of(registry: Registry[FunctionEntry]) -> dict[str, Source]:
    """Return the packages with functions, each with its longest list of releases."""
    sources: dict[str, Source] = {}
    for family in registry:
        source = family.candidates[0].source
        known_source = sources.get(source.name)
        if known_source is None or len(source.releases) > len(known_source.releases):
            sources[source.name] = source
    return sources


def _folded(name: str) -> str:
    return name.casefold().replace("_", "-").replace(".", "-")
