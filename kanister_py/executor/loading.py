"""Loading of the classes that registry entries name."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from contextlib import redirect_stdout
from importlib import import_module
from inspect import isabstract
from typing import Any

from kanister_py.core.errors import FunctionVersionRemoved, KanisterError, UsageError
from kanister_py.core.registry.declared import CatalogueMismatch, wrong_renames
from kanister_py.core.registry.entries import FunctionEntry, FunctionKind, Registry, RegistryBuilder
from kanister_py.core.versions.semver import parse_version


class PluginBroken(UsageError, reason="PluginBroken"):
    """The code of a plugin could not be loaded or registered."""

    def __init__(self, plugin: str, why: str) -> None:
        super().__init__(f"Plugin {plugin} is broken: {why}")
        self.plugin = plugin
        self.why = why
        self.summary = f"plugin {plugin} is broken: {why}"
        """Short form, which other errors append to their message."""


# Standard output is redirected for the whole process. Two threads that redirect at the same
# time would restore the wrong stream.
LOADING = threading.RLock()


def load_function(entry: FunctionEntry) -> type[Any]:
    """Load the class of an entry, and check that it matches the entry.

    Raises FunctionVersionRemoved, CatalogueMismatch (built-in) or PluginBroken.
    """
    if entry.target is None:
        removed_in = entry.listing.removed_in
        raise FunctionVersionRemoved(
            entry.function,
            str(entry.version),
            removed_in.bare if removed_in else "an earlier one",
            str(entry.listing.replacement or ""),
        )
    loaded = _imported(entry) if isinstance(entry.target, str) else entry.target
    why = _difference(entry, loaded)
    if why:
        raise _mismatch(entry, why)
    loaded_class: type[Any] = loaded
    return loaded_class


def load_functions(
    registry: Registry[FunctionEntry], *, plugins_only: bool = False
) -> tuple[Registry[FunctionEntry], list[PluginBroken]]:
    """Load the code of all versions, and return a registry of the functions that can be loaded.

    Errors of plugins are returned as well; a mismatch of a built-in function is raised. With
    `plugins_only`, the code of built-in functions is not loaded.
    """
    builder: RegistryBuilder[FunctionEntry] = RegistryBuilder()
    broken = []
    for family in registry:
        try:
            if not (plugins_only and family.candidates[0].source.is_ours):
                load_versions(family.candidates)
        except PluginBroken as error:
            broken.append(error)
        else:
            builder.add(family.candidates, family.default)
    builder.broken_plugins = [*registry.broken_plugins, *(error.summary for error in broken)]
    return builder.build(), broken


def load_versions(entries: Sequence[FunctionEntry]) -> None:
    """Load the code of all versions of a function, and check their renamed arguments."""
    code = {entry.version: load_function(entry) for entry in entries if entry.target is not None}
    problems = wrong_renames(entries, code)
    if problems:
        raise _mismatch(entries[0], "; ".join(problems), entries[0].function)


def import_target(target: str) -> Any:
    """Import the object at `module:name`."""
    module_name, _, attribute = target.partition(":")
    # Standard output is for results only, so output during imports goes to standard error.
    with LOADING, redirect_stdout(sys.stderr):
        return getattr(import_module(module_name), attribute)


def _imported(entry: FunctionEntry) -> Any:
    try:
        return import_target(entry.target)
    except (Exception, SystemExit) as error:  # the import of a plugin may raise anything
        why = f"its code {entry.target} cannot be loaded: {type(error).__name__}: {error}"
        raise _mismatch(entry, why) from error


def _mismatch(entry: FunctionEntry, why: str, title: str = "") -> KanisterError:
    """Build the error for the built-in catalogue or for the package of a plugin."""
    title = title or f"{entry.function} {entry.version}"
    if entry.source.is_ours:
        return CatalogueMismatch(title, why)
    return PluginBroken(entry.source.name, f"{title}: {why}")


def _difference(entry: FunctionEntry, loaded: Any) -> str:
    if not isinstance(loaded, type):
        return f"{entry.target} is not a class"
    name = getattr(loaded, "name", None)
    if name != entry.function:
        return f"the class {loaded.__qualname__} has the name {name}"
    own = getattr(loaded, "version", None)
    if isinstance(own, str) and parse_version(own) != entry.version:
        return f"the class {loaded.__qualname__} has the version {own}"
    if not callable(getattr(loaded, entry.kind.method, None)):
        return f"the class {loaded.__qualname__} has no method `{entry.kind.method}`"
    if isabstract(loaded):
        missing = ", ".join(sorted(getattr(loaded, "__abstractmethods__", ())))
        return f"the class {loaded.__qualname__} lacks the methods {missing}"
    has_model = hasattr(getattr(loaded, "Args", None), "model_validate")
    if entry.kind is not FunctionKind.BLUEPRINT:
        return ""
    if not has_model:
        return f"the class {loaded.__qualname__} has no model `Args`"
    return _model_error(loaded)


def _model_error(function: type[Any]) -> str:
    """Build the model `Args`, and return an error message if that fails."""
    build = getattr(function.Args, "model_rebuild", None)
    try:
        if build is not None:
            build()
    except Exception as error:  # noqa: BLE001 # a model of a plugin may raise anything
        why = f"{type(error).__name__}: {error}".splitlines()[0]
        return f"the model `Args` of the class {function.__qualname__} cannot be built: {why}"
    return ""
