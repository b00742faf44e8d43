"""Context of lint: available functions and strictness."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from types import MappingProxyType
from typing import Any, NamedTuple

from kanister_py.core.blueprints.lint.findings import Hints
from kanister_py.core.errors import KanisterError, Problem
from kanister_py.core.kube.objects import LocatedObject
from kanister_py.core.models import UnknownKey
from kanister_py.core.registry.entries import FunctionEntry, FunctionKind, Registry
from kanister_py.core.versions.semver import Version

SchemaCheck = Callable[[LocatedObject], tuple[list[UnknownKey], list[Problem]]]


class Context(NamedTuple):
    """Available functions, package releases and strictness.

    `at` maps packages to releases that replace the installed ones. `load` returns the class of a
    function version; without it, arguments are not checked. `schema_checks` are by kind (ActionSet,
    Composition, Schedule) and return unknown keys and problems of an object; other kinds are
    not checked against a schema. `crd_of` returns the CRD for a definition of composite resources,
    and CRDs unchanged; without it, patches are not checked.
    """

    registry: Registry[FunctionEntry]
    at: Mapping[str, Version] = MappingProxyType({})
    is_strict: bool = False
    load: Callable[[FunctionEntry], type[Any]] | None = None
    schema_checks: Mapping[str, SchemaCheck] = MappingProxyType({})
    crd_of: Callable[[LocatedObject], Mapping[str, Any]] | None = None
    hints: Hints = Hints(inf)

    def code(self, entry: FunctionEntry) -> Any:
        """Return the class of a version, or None if it cannot be loaded."""
        if self.load is None or entry.target is None:
            return None
        try:
            return self.load(entry)
        except KanisterError:
            # Code that cannot be loaded is not an error of the Blueprint.
            return None

    @property
    def function_names(self) -> list[str]:
        return [
            family.function
            for family in self.registry
            if family.candidates[0].kind is FunctionKind.BLUEPRINT
        ]
