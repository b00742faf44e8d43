"""Context of lint: the functions there are, and how strict to be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from types import MappingProxyType
from typing import Any, NamedTuple

from kanister_py.core.blueprints.lint.findings import Hints
from kanister_py.core.blueprints.lint.signatures import Signature
from kanister_py.core.blueprints.model import Found
from kanister_py.core.errors import KanisterError, Problem
from kanister_py.core.objects.reading import UnknownKey
from kanister_py.core.registry.entries import FunctionEntry, FunctionKind, Registry
from kanister_py.core.versions.semver import Version


class Context(NamedTuple):
    """The functions there are, the releases that are asked about, and how strict to be.

    `at` names other releases of packages than the installed ones. `load` gives the
    class behind a version of a function; without it, arguments are not looked at.
    `signatures` has those that are known without loading, by function and version.
    `read_action_set` gives the keys of an ActionSet that nothing reads, and what of it
    is none; without it, the form of ActionSets is not looked at. `read_composition`
    and `read_schedule` do the same for Compositions and Schedules.
    """

    registry: Registry[FunctionEntry]
    at: Mapping[str, Version] = MappingProxyType({})
    is_strict: bool = False
    load: Callable[[FunctionEntry], type[Any]] | None = None
    signatures: Mapping[tuple[str, str], Signature] = MappingProxyType({})
    read_action_set: Callable[[Found], tuple[list[UnknownKey], list[Problem]]] | None = None
    read_composition: Callable[[Found], tuple[list[UnknownKey], list[Problem]]] | None = None
    read_schedule: Callable[[Found], tuple[list[UnknownKey], list[Problem]]] | None = None
    hints: Hints = Hints(inf)

    def signature(self, entry: FunctionEntry) -> Signature | None:
        return self.signatures.get((entry.function, str(entry.version)))

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
