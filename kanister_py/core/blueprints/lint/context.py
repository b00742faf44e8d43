"""Context of lint: the functions there are, and how strict to be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from types import MappingProxyType
from typing import Any, NamedTuple

from kanister_py.core.blueprints.lint.findings import Hints
from kanister_py.core.errors import KanisterError, Problem
from kanister_py.core.kube.objects import Found
from kanister_py.core.models import UnknownKey
from kanister_py.core.registry.entries import FunctionEntry, FunctionKind, Registry
from kanister_py.core.versions.semver import Version

FormReader = Callable[[Found], tuple[list[UnknownKey], list[Problem]]]


class Context(NamedTuple):
    """The functions there are, the releases that are asked about, and how strict to be.

    `at` names other releases of packages than the installed ones. `load` gives the
    class behind a version of a function; without it, arguments are not looked at.
    `readers` are by kind (ActionSet, Composition, Schedule): each gives the keys of an
    object that nothing reads, and its problems; without one, the form of objects of that
    kind is not looked at.
    """

    registry: Registry[FunctionEntry]
    at: Mapping[str, Version] = MappingProxyType({})
    is_strict: bool = False
    load: Callable[[FunctionEntry], type[Any]] | None = None
    readers: Mapping[str, FormReader] = MappingProxyType({})
    hints: Hints = Hints(inf)

    def code(self, entry: FunctionEntry) -> Any:
        """Load the code of a version; None if there is none that can be loaded."""
        if self.load is None or entry.target is None:
            return None
        try:
            return self.load(entry)
        except KanisterError:
            # Code that cannot be loaded is no fault of the blueprint's.
            return None

    @property
    def function_names(self) -> list[str]:
        return [
            family.function
            for family in self.registry
            if family.candidates[0].kind is FunctionKind.BLUEPRINT
        ]
