"""Plugins: installed packages with functions, found by their entry points."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from kanister_py.core.errors import InvalidVersion
from kanister_py.core.registry.entries import Source
from kanister_py.core.versions.semver import Version, parse_version
from kanister_py.executor.loading import PluginBroken

ENTRY_POINT_GROUP = "kanister_py.functions"


def installed_plugins() -> Sequence[EntryPoint]:
    """Return the entry points of packages with functions."""
    return tuple(entry_points(group=ENTRY_POINT_GROUP))


def title_of(plugin: EntryPoint) -> str:
    return f"{plugin.name} ({plugin.value})"


def load_plugin(plugin: EntryPoint) -> tuple[Source, Sequence[Any]]:
    """Load an entry point: one function, or several."""
    try:
        # Standard output is reserved for results, but imported code may print.
        with redirect_stdout(sys.stderr):
            declared = plugin.load()
    except (Exception, SystemExit) as error:  # imported code may raise anything
        raise PluginBroken(title_of(plugin), f"{type(error).__name__}: {error}") from error
    distribution = plugin.dist
    name = distribution.name if distribution else plugin.module.partition(".")[0]
    release = release_of_text(distribution.version) if distribution else Version(0, 0, 0)
    return Source(name, release), declared if isinstance(declared, Sequence) else [declared]


def release_of_text(text: str) -> Version:
    """Parse a Python package's version as a release: `1.2.0rc1` is before `1.2.0`."""
    try:
        return parse_version(text)
    except InvalidVersion:
        # Versions as in PEP 440: 1.2, 1.2.0rc1, 1.2.0.post1, 1.2.0+local
        numbers, suffix = _leading_numbers(text)
        base = ".".join(str(number) for number in (*numbers, 0, 0, 0)[:3])
        is_early = suffix.startswith(("a", "b", "rc", ".dev"))
        return parse_version(f"{base}-{suffix.strip('.')}" if is_early else base)


def _leading_numbers(text: str) -> tuple[list[int], str]:
    numbers: list[int] = []
    release = text.partition("+")[0]
    while len(numbers) < 3:
        digits = release[: len(release) - len(release.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
        release = release[len(digits) :]
        if not (release.startswith(".") and release[1:2].isdigit()):
            break
        release = release[1:]
    return numbers, release
