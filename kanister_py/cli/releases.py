"""Target releases: by which release of which package versions are judged."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kanister_py.cli.parser import meant_among, repeated
from kanister_py.core.errors import InvalidVersion, UsageError
from kanister_py.core.registry.entries import FunctionEntry, Registry, Source
from kanister_py.core.versions.semver import Version, parse_version

OURS = "kanister-py"


class Target(NamedTuple):
    """A release of a package that brings functions."""

    package: str
    release: Version

    def __str__(self) -> str:
        bare = self.release.bare
        return bare if self.package == OURS else f"{self.package} {bare}"


def add_target_release(parser: argparse.ArgumentParser) -> None:
    """Take `--target-release R`, and `--target-release NAME=R` for a plugin."""
    repeated(
        parser,
        "--target-release",
        metavar="R",
        type=parse_target,
        help="judge by this release of kanister-py instead of the installed one; "
        "NAME=R for the package of a plugin; may be given several times",
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
    """Give the release that is asked about for each package, or say which packages there are."""
    sources = sources_of(registry)
    known = {_folded(name): name for name in (OURS, *sources)}
    at = {}
    for target in targets:
        name = known.get(_folded(target.package))
        if name is None:
            meant = meant_among(target.package, sorted(known.values()))
            raise UsageError(
                f"No package {target.package} brings functions{meant}",
                reason="UnknownDistribution",
            )
        at[name] = target.release
    return at


def unplanned(
    targets: Iterable[Target], registry: Registry[FunctionEntry]
) -> Iterable[tuple[Target, Version]]:
    """Find the releases that are asked about and come after all that the record knows."""
    sources = {_folded(name): each for name, each in sources_of(registry).items()}
    for target in targets:
        source = sources.get(_folded(target.package))
        if source is not None and source.releases:
            last = source.releases[-1].version
            if target.release > last:
                yield target, last


def sources_of(registry: Registry[FunctionEntry]) -> dict[str, Source]:
    """Give the packages that bring functions, each with its longest list of releases."""
    sources: dict[str, Source] = {}
    for family in registry:
        source = family.candidates[0].source
        known = sources.get(source.name)
        if known is None or len(source.releases) > len(known.releases):
            sources[source.name] = source
    return sources


def _folded(name: str) -> str:
    return name.casefold().replace("_", "-").replace(".", "-")
