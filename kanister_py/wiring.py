"""The one place that fills registries and picks adapters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kanister_py.adapters.plugins_metadata import (
    DISTRIBUTION,
    installed_plugins,
    installed_version,
)
from kanister_py.core.errors import (
    CatalogueMismatch,
    InvalidVersion,
    PluginBroken,
    RegistrationRefused,
)
from kanister_py.core.registry.declared import catalogued_entries, disagreements, entries_of
from kanister_py.core.registry.entries import (
    FunctionEntry,
    Registry,
    RegistryBuilder,
    Source,
    default_of,
)
from kanister_py.core.versions.catalogue import Catalogue, parse_catalogue
from kanister_py.core.versions.semver import Version, parse_version
from kanister_py.executor.loading import load_function
from kanister_py.functions.builtin import BUILTIN_FUNCTIONS

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


class Functions(NamedTuple):
    """Everything that is registered, and what could not be."""

    registry: Registry[FunctionEntry]
    catalogue: Catalogue
    broken: tuple[PluginBroken, ...] = ()

    @property
    def release(self) -> Version:
        return installed_release()


def read_versions_file() -> tuple[str, str]:
    """Give the text of versions.yaml and where it was found.

    A wheel carries the file inside; an editable install finds it at the top of
    the repository.
    """
    here = Path(__file__).parent
    for path in (here / "versions.yaml", here.parent / "versions.yaml"):
        if path.is_file():
            return path.read_text(encoding="utf-8"), str(path)
    raise CatalogueMismatch("the installation", "versions.yaml is missing; install it again")


def installed_release() -> Version:
    """Say which release of ours is installed."""
    return release_of_text(installed_version())


def release_of_text(text: str) -> Version:
    """Read a Python package's version as a release: `1.2.0rc1` comes before `1.2.0`."""
    try:
        return parse_version(text)
    except InvalidVersion:
        # Python's own spelling of versions: 1.2, 1.2.0rc1, 1.2.0.post1, 1.2.0+local
        numbers, rest = _leading_numbers(text)
        base = ".".join(str(each) for each in (*numbers, 0, 0, 0)[:3])
        is_early = rest.startswith(("a", "b", "rc", ".dev"))
        return parse_version(f"{base}-{rest.strip('.')}" if is_early else base)


def _leading_numbers(text: str) -> tuple[list[int], str]:
    numbers: list[int] = []
    rest = text.partition("+")[0]
    while len(numbers) < 3:
        digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
        rest = rest[len(digits) :]
        if not (rest.startswith(".") and rest[1:2].isdigit()):
            break
        rest = rest[1:]
    return numbers, rest


@lru_cache(maxsize=1)
def read_functions() -> Functions:
    """Register what comes with us and what the installed plugins bring."""
    text, path = read_versions_file()
    return build_functions(parse_catalogue(text, path, installed_release()))


def build_functions(
    catalogue: Catalogue,
    targets: Mapping[str, Mapping[str, str]] = BUILTIN_FUNCTIONS,
    plugins: Iterable[EntryPoint] | None = None,
) -> Functions:
    """Fill a registry from a record, the code it speaks of, and plugins.

    A plugin that is broken is left out and reported; the others stay.
    """
    source = Source(DISTRIBUTION, installed_release(), catalogue.releases)
    wrongs = disagreements(catalogue, targets, source)
    if wrongs:
        raise CatalogueMismatch("what is released", "; ".join(wrongs))
    builder: RegistryBuilder[FunctionEntry] = RegistryBuilder()
    for entries in catalogued_entries(catalogue, targets, source):
        builder.add(entries, default_of(entries))
    broken = []
    found = installed_plugins() if plugins is None else plugins
    for plugin in sorted(found, key=lambda each: (each.name, each.value)):
        try:
            _register_plugin(builder, plugin)
        except PluginBroken as error:
            broken.append(error)
    return Functions(builder.build(), catalogue, tuple(broken))


def _register_plugin(builder: RegistryBuilder[FunctionEntry], plugin: EntryPoint) -> None:
    title = f"{plugin.name} ({plugin.value})"
    try:
        declared = plugin.load()
    except (Exception, SystemExit) as error:  # whatever the import of foreign code may raise
        raise PluginBroken(title, f"{type(error).__name__}: {error}") from error
    distribution = plugin.dist
    name = distribution.name if distribution else plugin.module.partition(".")[0]
    release = release_of_text(distribution.version) if distribution else Version(0, 0, 0)
    source = Source(name, release)
    # An entry point names one function, or a list of them that is taken as a whole.
    several = declared if isinstance(declared, Sequence) else [declared]
    trial = RegistryBuilder(builder.build())
    try:
        families = [entries_of(each, source) for each in several]
        for entries in families:
            trial.add(entries, default_of(entries))
    except RegistrationRefused as error:
        raise PluginBroken(title, str(error)) from error
    for entries in families:
        builder.add(entries, default_of(entries))


def registry_of(*functions: Any, distribution: str = "local") -> Registry[FunctionEntry]:
    """Register functions by hand, for tests and for programs that embed us."""
    builder: RegistryBuilder[FunctionEntry] = RegistryBuilder()
    for function in functions:
        entries = entries_of(function, Source(distribution, Version(0, 0, 0)))
        builder.add(entries, default_of(entries))
    return builder.build()


def check_everything(functions: Functions) -> None:
    """Load the code of every served version, so that no mismatch waits for its first use."""
    for family in functions.registry:
        for entry in family:
            if entry.target is not None:
                load_function(entry)
